// The mathematical library, whose functions are IFUNCs, and long double and 128-bit arithmetic of libgcc.
//# Args: -fno-builtin
//# Link: -lm
//# Variants: static pie+O2 no-pie
//# Output: 0.84147 2.71828 1.41421 340282366920938463463
#include <math.h>
#include <stdio.h>
int main(void) {
    volatile double one = 1, two = 2;
    unsigned __int128 big = ~(unsigned __int128)0;
    big /= 1000000000000000000u;
    printf("%.5f %.5f %.5f %llu%03llu\n", sin(one), exp(one), sqrt(two), (unsigned long long)(big / 1000),
           (unsigned long long)(big % 1000));
    return 0;
}
