// An exception that nobody catches ends in SIGABRT, and what() is printed.
//# Variants: no-pie static-pie
//# Expect: -6
#include <stdexcept>
#include <sys/resource.h>
int main() {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    throw std::out_of_range("nobody catches this");
}
