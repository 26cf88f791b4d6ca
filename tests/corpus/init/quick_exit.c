// quick_exit runs its own list and no destructors; _exit runs nothing.
//# Args: -std=gnu11
//# Variants: pie static
//# Expect: 4
//# Output: quick
#include <stdlib.h>
#include <unistd.h>
static void quick(void) {
    if (write(1, "quick\n", 6) != 6)
        _exit(9);
}
static void slow(void) {
    if (write(1, "slow\n", 5) != 5)
        _exit(9);
}
__attribute__((destructor)) static void down(void) { slow(); }
int main(void) {
    atexit(slow);
    at_quick_exit(quick);
    quick_exit(4);
}
