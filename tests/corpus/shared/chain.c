// A library of a library, with -z defs: nothing may be undefined.
//# Library: LOW
//# Library: HIGH libLOW.so -Wl,-z,defs
//# Variants: pie no-pie
//# Output: 2
int low(void);
int high(void);
#ifdef LOW
int low(void) { return 1; }
#elif defined HIGH
int high(void) { return low() + 1; }
#else
#include <stdio.h>
int main(void) {
    printf("%d\n", high());
    return 0;
}
#endif
