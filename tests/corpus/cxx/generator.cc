// Coroutines that await each other, with frames freed on an exception.
//# Args: -std=gnu++20
//# Variants: pie+O2 static+O0
//# Output: 1 2 3 thrown frames 0
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
static int frames;
struct Task {
    struct promise_type {
        std::exception_ptr error;
        int value = 0;
        void *operator new(std::size_t size) {
            frames++;
            return std::malloc(size);
        }
        void operator delete(void *memory) {
            frames--;
            std::free(memory);
        }
        Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(int n) {
            value = n;
            return {};
        }
        void return_void() {}
        void unhandled_exception() { error = std::current_exception(); }
    };
    std::coroutine_handle<promise_type> handle;
};
static Task counting(int limit) {
    for (int n = 1; n <= limit; n++)
        co_yield n;
    throw std::runtime_error("thrown");
}
int main() {
    Task task = counting(3);
    for (task.handle.resume(); !task.handle.done(); task.handle.resume())
        std::printf("%d ", task.handle.promise().value);
    try {
        std::rethrow_exception(task.handle.promise().error);
    } catch (const std::exception &error) {
        std::printf("%s ", error.what());
    }
    task.handle.destroy();
    std::printf("frames %d\n", frames);
}
