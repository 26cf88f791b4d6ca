// Versions given in assembly to a library's own data and functions, and asked for by the program.
//# File: versions.map V1 { global: value; local: *; }; V2 { global: value; } V1;
//# Library: LIBRARY -Wl,--version-script=versions.map
//# Variants: pie no-pie
//# Output: 1 2
#ifdef LIBRARY
int first(void);
int second(void);
int first(void) { return 1; }
int second(void) { return 2; }
__asm__(".symver first, value@V1\n.symver second, value@@V2");
#else
#include <stdio.h>
int old(void);
int value(void);
__asm__(".symver old, value@V1");
int main(void) {
    printf("%d %d\n", old(), value());
    return 0;
}
#endif
