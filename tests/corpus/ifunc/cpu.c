// A resolver that asks the processor, before any constructor has run.
//# Args: -Wno-unused-function
//# Variants: pie static no-pie+O2
//# Output: 42
#include <stdio.h>
static int plain(int x) { return x + 2; }
__attribute__((target("avx2"))) static int vector(int x) { return x + 2; }
static int (*resolve(void))(int) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") ? vector : plain;
}
int add(int x) __attribute__((ifunc("resolve")));
int main(void) {
    printf("%d\n", add(40));
    return 0;
}
