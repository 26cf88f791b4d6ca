// Megabytes of initialised data, read-only and writable, larger than a window.
//# Variants: no-pie pie static pie+relocs
//# Output: 17 34 51
#include <stdio.h>
static int writable[1 << 20] = {[1 << 19] = 17, [(1 << 20) - 1] = 17};
static const int constant[1 << 20] = {[1 << 18] = 34, [(1 << 20) - 1] = 1};
int main(void) {
    int *volatile w = writable;
    const int *volatile c = constant;
    w[0] = w[1 << 19] + c[1 << 18];
    printf("%d %d %d\n", w[(1 << 20) - 1], c[1 << 18], w[0]);
    return 0;
}
