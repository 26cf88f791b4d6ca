// Strong, weak and weakref aliases.
//# Variants: pie no-pie static pie+lto pie+gc
//# Output: 5 5 5 same
#include <stdio.h>
int original(void);
int original(void) { return 5; }
int strong(void) __attribute__((alias("original")));
int weak(void) __attribute__((weak, alias("original")));
static int reference(void) __attribute__((weakref("original")));
int main(void) {
    int (*volatile one)(void) = strong;
    int (*volatile two)(void) = weak;
    printf("%d %d %d %s\n", strong(), weak(), reference(), one == two ? "same" : "different");
    return 0;
}
