// The program's definition wins over the library's, also for calls inside the library.
//# Library: LIBRARY
//# Variants: pie no-pie+O2 pie+lazy pie+rdynamic
//# Output: program program
const char *name(void);
const char *ask(void);
#ifdef LIBRARY
__attribute__((weak)) const char *name(void) { return "library"; }
const char *ask(void) { return name(); }
#else
#include <stdio.h>
const char *name(void) { return "program"; }
int main(void) {
    printf("%s %s\n", name(), ask());
    return 0;
}
#endif
