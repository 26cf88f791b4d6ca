// extern inline of C99 and of GNU, and a definition elsewhere: the address is one.
//# Object: OTHER
//# Variants: pie+O2 pie+O0 static
//# Output: 6 one
inline int twice(int x) { return 2 * x; }
#ifdef OTHER
extern int twice(int x);
int (*address(void))(int);
int (*address(void))(int) { return twice; }
#else
#include <stdio.h>
int (*address(void))(int);
int main(void) {
    int (*mine)(int) = twice;
    printf("%d %s\n", twice(3), mine == address() ? "one" : "two");
    return 0;
}
#endif
