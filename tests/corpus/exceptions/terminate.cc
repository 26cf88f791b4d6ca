// noexcept ends in the terminate handler.
//# Variants: pie static+O2
//# Expect: 3
//# Output: terminating
#include <cstdio>
#include <cstdlib>
#include <exception>
static void thrower() { throw 1; }
static void promise() noexcept { thrower(); }
int main() {
    std::set_terminate([] {
        std::puts("terminating");
        std::fflush(stdout);
        std::_Exit(3);
    });
    promise();
}
