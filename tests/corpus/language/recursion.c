// Ackermann's function: deep and wide recursion with frame pointers.
//# Args: -fno-omit-frame-pointer
//# Variants: pie static+O2
//# Output: 2045 125
#include <stdio.h>
static unsigned ackermann(unsigned m, unsigned n) {
    return m == 0 ? n + 1 : ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}
int main(void) {
    unsigned large = ackermann(3, 8), small = ackermann(3, 4);
    printf("%u %u\n", large, small);
    return 0;
}
