// RTLD_NEXT: the program wraps a function of a library.
//# Plugin: LIBRARY
//# Link: -Wl,--no-as-needed libLIBRARY.so -ldl
//# Variants: pie no-pie
//# Output: 11
#define _GNU_SOURCE
int value(void);
#ifdef LIBRARY
int value(void) { return 1; }
#else
#include <dlfcn.h>
#include <stdio.h>
int value(void) {
    int (*next)(void);
    *(void **)&next = dlsym(RTLD_NEXT, "value");
    return next() + 10;
}
int main(void) {
    printf("%d\n", value());
    return 0;
}
#endif
