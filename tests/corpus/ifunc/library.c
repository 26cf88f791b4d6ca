// IFUNCs that a library exports, one of them called inside the library too.
//# Library: LIBRARY
//# Args: -Wno-unused-function
//# Variants: pie no-pie pie+now pie+bsymbolic
//# Output: 10 11
int answer(void);
int inside(void);
#ifdef LIBRARY
static int ten(void) { return 10; }
static int (*resolve(void))(void) { return ten; }
int answer(void) __attribute__((ifunc("resolve")));
int inside(void) { return answer() + 1; }
#else
#include <stdio.h>
int main(void) {
    printf("%d %d\n", answer(), inside());
    return 0;
}
#endif
