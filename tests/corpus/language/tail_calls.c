// Two functions call each other a million times deep: the jumps take no stack.
//# Variants: pie+O2 no-pie+O2
//# Output: even
#include <stdio.h>
#include <sys/resource.h>
__attribute__((noinline)) static int odd(unsigned n, int (*even)(unsigned)) {
    return n == 0 ? 0 : even(n - 1);
}
__attribute__((noinline)) static int even(unsigned n) { return n == 0 ? 1 : odd(n - 1, even); }
int main(void) {
    struct rlimit limit = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_STACK, &limit);
    puts(even(4000000) ? "even" : "odd");
    return 0;
}
