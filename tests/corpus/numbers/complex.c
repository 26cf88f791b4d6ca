// Complex numbers: multiplication and division out of libgcc, and the library's functions.
//# Args: -fno-builtin
//# Link: -lm
//# Variants: pie static+O2
//# Output: -5.0 10.0 0.44 0.08 5.000 i^2 = -1.0
#include <complex.h>
#include <stdio.h>
int main(void) {
    volatile double complex a = 1 + 2 * I, b = 3 + 4 * I;
    double complex product = a * b, quotient = a / b, square = cpow(I, 2);
    printf("%.1f %.1f %.2f %.2f %.3f i^2 = %.1f\n", creal(product), cimag(product), creal(quotient),
           cimag(quotient), cabs(b), creal(square));
    return 0;
}
