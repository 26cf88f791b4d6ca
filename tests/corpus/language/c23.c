// What newer C brings and these compilers have: digit separators left out, binary constants, typeof, attributes.
//# Args: -std=gnu2x
//# Variants: pie+O2
//# Output: 10 0 5
#include <stdio.h>
struct point {
    int x, y;
};
[[nodiscard]] static int five(void) { return 5; }
int main(void) {
    struct point zero = {};
    __typeof__(zero.x) ten = 0b1010;
    printf("%d %d %d\n", ten, zero.x + zero.y, five());
    return 0;
}
