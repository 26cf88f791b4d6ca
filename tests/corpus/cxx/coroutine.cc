// Coroutines: functions split into parts with frames on the heap.
//# Args: -std=gnu++20
//# Variants: pie+O2 static no-pie
//# Output: 0 1 1 2 3 5 8
#include <coroutine>
#include <cstdio>
#include <exception>
struct Numbers {
    struct promise_type {
        int current;
        Numbers get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(int value) {
            current = value;
            return {};
        }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
};
static Numbers fibonacci() {
    for (int a = 0, b = 1;; b = a + b, a = b - a)
        co_yield a;
}
int main() {
    Numbers numbers = fibonacci();
    for (int i = 0; i < 7; i++) {
        numbers.handle.resume();
        std::printf("%d%c", numbers.handle.promise().current, i < 6 ? ' ' : '\n');
    }
    numbers.handle.destroy();
}
