// 80-bit numbers of the x87, through variable arguments and the library.
//# Args: -fno-builtin
//# Link: -lm
//# Variants: static pie+O2
//# Output: 1.4142135623730950488 0x8p-3 64
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
static long double sum(int count, ...) {
    va_list list;
    long double total = 0;
    va_start(list, count);
    while (count--)
        total += va_arg(list, long double);
    va_end(list);
    return total;
}
int main(void) {
    printf("%.19Lf %La %d\n", sqrtl(sum(3, 0.5L, 0.25L, 1.25L)), sum(2, 0.5L, 0.5L), LDBL_MANT_DIG);
    return 0;
}
