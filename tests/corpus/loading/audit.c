// Symbols bound lazily: a call through the PLT before and after the loader has filled its slot.
//# Library: LIBRARY
//# Variants: pie+lazy no-pie+lazy pie+now
//# Output: 1 2 3
#ifdef LIBRARY
int next(void);
int next(void) {
    static int n;
    return ++n;
}
#else
#include <stdio.h>
int next(void);
int main(void) {
    int first = next(), second = next(), third = next();
    printf("%d %d %d\n", first, second, third);
    return 0;
}
#endif
