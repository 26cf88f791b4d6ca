// One thread-local variable, declared weak and extern in other objects and a library.
//# Library: LIBRARY
//# Object: OTHER
//# Variants: pie no-pie
//# Output: 11 12
extern __thread int shared;
int in_library(void);
int in_object(void);
#if defined LIBRARY
int in_library(void) { return ++shared; }
#elif defined OTHER
__attribute__((weak)) __thread int shared = 10;
int in_object(void) { return ++shared; }
#else
#include <stdio.h>
int main(void) {
    int first = in_library(), second = in_object();
    printf("%d %d\n", first, second);
    return shared != 12;
}
#endif
