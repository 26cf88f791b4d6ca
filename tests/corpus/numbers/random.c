// Pseudo-random numbers of the C library are the same wherever the program lies.
//# Args: -D_GNU_SOURCE
//# Variants: pie static
//# Output: 1804289383 1804289383 0.0416
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    srandom(1);
    srand(1);
    srand48(1);
    int first = rand();
    srandom(1);
    printf("%d %ld", first, random());
    printf(" %.4f\n", drand48());
    return 0;
}
