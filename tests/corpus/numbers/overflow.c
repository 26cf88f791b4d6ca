// Arithmetic that tells of overflow, and the flag of the processor in inline assembly.
//# Variants: pie+O2 no-pie
//# Output: 1 0 1 1
#include <limits.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int r, one = argc;
    long l;
    unsigned char carry;
    (void)argv;
    int added = __builtin_add_overflow(INT_MAX, one, &r), fits = __builtin_mul_overflow(1L << 40, one, &l);
    int product = __builtin_mul_overflow(INT_MAX, one + 1, &r);
    __asm__("addl $1, %0\n\tsetc %1" : "=r"(r), "=q"(carry) : "0"(-one) : "cc");
    printf("%d %d %d %d\n", added, fits, product, carry);
    return 0;
}
