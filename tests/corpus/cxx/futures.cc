// Promises, futures, packaged tasks, and an exception carried over.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie+O2 static
//# Output: 42 carried 10
#include <cstdio>
#include <future>
#include <stdexcept>
#include <thread>
int main() {
    auto answer = std::async(std::launch::async, [] { return 42; });
    auto failing = std::async(std::launch::async, []() -> int { throw std::runtime_error("carried"); });
    std::packaged_task<int(int)> task([](int n) { return n * 2; });
    auto result = task.get_future();
    std::thread thread(std::move(task), 5);
    thread.join();
    std::printf("%d ", answer.get());
    try {
        failing.get();
    } catch (const std::exception &error) {
        std::printf("%s ", error.what());
    }
    std::printf("%d\n", result.get());
}
