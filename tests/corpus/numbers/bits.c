// Counting, scanning, swapping and rotating bits, against the slow way.
//# Variants: pie+O2 no-pie static
//# Output: 64 patterns agree
#include <stdint.h>
#include <stdio.h>
static int slow_count(uint64_t x) {
    int n = 0;
    for (; x; x &= x - 1)
        n++;
    return n;
}
int main(void) {
    int agree = 0;
    for (int i = 0; i < 64; i++) {
        uint64_t x = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1) >> (i / 2);
        uint64_t swapped = 0;
        for (int b = 0; b < 8; b++)
            swapped |= (x >> (8 * b) & 255) << (56 - 8 * b);
        agree += __builtin_popcountll(x) == slow_count(x) && __builtin_bswap64(x) == swapped &&
                 (x >> __builtin_ctzll(x) & 1) && __builtin_parityll(x) == slow_count(x) % 2 &&
                 x << __builtin_clzll(x) >> 63;
    }
    printf("%d patterns agree\n", agree);
    return 0;
}
