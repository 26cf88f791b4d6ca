// An exception leaves a function that promised none: terminate, with a handler of the program's own.
//# Variants: pie+O2 static
//# Expect: 9
//# Output: handler
#include <cstdio>
#include <cstdlib>
#include <exception>
__attribute__((noinline)) static void fail(bool really) {
    if (really)
        throw 1;
}
static void promise(bool broken) noexcept { fail(broken); }
int main(int argc, char **) {
    std::set_terminate([] {
        std::puts("handler");
        std::fflush(stdout);
        std::_Exit(9);
    });
    promise(argc > 0);
}
