// Rethrowing, nesting, and unwinding through two levels of handlers.
//# Variants: no-pie pie+O2 static+O2
//# Output: inner
//# Output: outer
//# Output: nested: low
#include <cstdio>
#include <exception>
#include <stdexcept>
static void inner() {
    try {
        throw std::runtime_error("low");
    } catch (...) {
        std::puts("inner");
        throw;
    }
}
static void outer() {
    try {
        inner();
    } catch (const std::exception &) {
        std::puts("outer");
        std::throw_with_nested(std::logic_error("high"));
    }
}
int main() {
    try {
        outer();
    } catch (const std::exception &error) {
        try {
            std::rethrow_if_nested(error);
        } catch (const std::exception &nested) {
            std::printf("nested: %s\n", nested.what());
        }
    }
}
