// A library found by the program's path, needing another found by its own.
//# Library: INNER
//# Library: OUTER libINNER.so -Wl,--enable-new-dtags
//# Variants: pie no-pie
//# Output: inner through outer
const char *inner(void);
const char *outer(void);
#if defined INNER
const char *inner(void) { return "inner"; }
#elif defined OUTER
const char *outer(void) { return inner(); }
#else
#include <stdio.h>
int main(void) {
    printf("%s through outer\n", outer());
    return 0;
}
#endif
