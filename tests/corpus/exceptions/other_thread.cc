// An exception_ptr carries an exception from one thread to another.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie no-pie+O2 static
//# Output: from the thread
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <thread>
int main() {
    std::exception_ptr carried;
    std::thread thread([&] {
        try {
            throw std::runtime_error("from the thread");
        } catch (...) {
            carried = std::current_exception();
        }
    });
    thread.join();
    try {
        std::rethrow_exception(carried);
    } catch (const std::exception &error) {
        std::puts(error.what());
    }
}
