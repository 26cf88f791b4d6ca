// A library calls functions of the program, undefined in the library.
//# Library: LIBRARY
//# Variants: pie no-pie pie+now pie+gc
//# Output: 24
int apply(int x);
int callback(int x);
#ifdef LIBRARY
int apply(int x) { return callback(x) * 2; }
#else
#include <stdio.h>
int callback(int x) { return x + 2; }
int main(void) {
    printf("%d\n", apply(10));
    return 0;
}
#endif
