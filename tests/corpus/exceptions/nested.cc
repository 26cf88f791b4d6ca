// Exceptions inside exceptions, unwound level by level.
//# Variants: pie+O2 static no-pie
//# Output: outer: middle: inner
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
static std::string tell(const std::exception &error) {
    try {
        std::rethrow_if_nested(error);
    } catch (const std::exception &inner) {
        return std::string(error.what()) + ": " + tell(inner);
    }
    return error.what();
}
static void fail(int depth) {
    try {
        if (depth == 0)
            throw std::runtime_error("inner");
        fail(depth - 1);
    } catch (...) {
        if (depth == 0)
            throw;
        std::throw_with_nested(std::logic_error(depth == 2 ? "outer" : "middle"));
    }
}
int main() {
    try {
        fail(2);
    } catch (const std::exception &error) {
        std::puts(tell(error).c_str());
    }
}
