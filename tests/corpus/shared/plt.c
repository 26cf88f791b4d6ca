// Lazy binding keeps the argument registers, also those of vectors.
//# Library: LIBRARY
//# Variants: pie+lazy no-pie+lazy pie+now pie+noplt pie+cet
//# Output: 136.0 21
double many(double a, double b, double c, double d, double e, double f, double g, double h, double i,
            double j);
int integers(int a, int b, int c, int d, int e, int f);
#ifdef LIBRARY
double many(double a, double b, double c, double d, double e, double f, double g, double h, double i,
            double j) {
    return a + b + c + d + e + f + g + h + i + j;
}
int integers(int a, int b, int c, int d, int e, int f) { return a + b + c + d + e + f; }
#else
#include <stdio.h>
int main(void) {
    printf("%.1f %d\n", many(1, 2, 3, 4, 5, 6, 7, 8, 50, 50), integers(1, 2, 3, 4, 5, 6));
    return 0;
}
#endif
