// A function has one address, in the program and in the library.
//# Library: LIBRARY
//# Variants: no-pie pie no-pie+now pie+noplt pie+lazy
//# Output: same same
//# SkipLinker: wild no-pie (with wild 0.10 addresses of functions differ, also without hugealign)
int function(void);
int (*address(void))(void);
int check(int (*pointer)(void));
#ifdef LIBRARY
int function(void) { return 1; }
int (*address(void))(void) { return function; }
int check(int (*pointer)(void)) { return pointer == function; }
#else
#include <stdio.h>
static int (*const table[])(void) = {function};
int main(void) {
    printf("%s %s\n", address() == function ? "same" : "different", check(table[0]) ? "same" : "different");
    return 0;
}
#endif
