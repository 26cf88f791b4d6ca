// Rounding modes and floating-point exceptions are per thread and survive calls.
//# Args: -frounding-math -fno-builtin
//# Link: -lm
//# Variants: pie static
//# Output: 2 3 3 -2 divided
#include <fenv.h>
#include <math.h>
#include <stdio.h>
int main(void) {
    volatile double half = 2.5, minus = -2.5, zero = 0;
    int nearest = (int)rint(half);
    fesetround(FE_UPWARD);
    int up = (int)rint(half), up_again = (int)nearbyint(half), toward = (int)rint(minus);
    fesetround(FE_TONEAREST);
    feclearexcept(FE_ALL_EXCEPT);
    volatile double infinite = 1 / zero;
    (void)infinite;
    printf("%d %d %d %d %s\n", nearest, up, up_again, toward,
           fetestexcept(FE_DIVBYZERO) ? "divided" : "nothing");
    return 0;
}
