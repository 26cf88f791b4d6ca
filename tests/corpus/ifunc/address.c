// The address of a library's IFUNC is the same in the program and in the library.
//# Library: LIBRARY
//# Args: -fsemantic-interposition -Wno-unused-function
//# Variants: pie no-pie+O2 pie+now
//# Output: same 5
int answer(void);
int (*address(void))(void);
#ifdef LIBRARY
static int five(void) { return 5; }
static int (*resolve(void))(void) { return five; }
int answer(void) __attribute__((ifunc("resolve")));
int (*address(void))(void) { return answer; }
#else
#include <stdio.h>
int main(void) {
    printf("%s %d\n", address() == answer ? "same" : "different", address()());
    return 0;
}
#endif
