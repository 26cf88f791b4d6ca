// Bit-fields that cross bytes, signed and unsigned, in a packed structure and a union.
//# Variants: pie+O2 no-pie
//# Output: 12: 5 -3 1023 4294967295 a5
#include <stdio.h>
#include <string.h>
struct __attribute__((packed)) fields {
    unsigned small : 3;
    signed negative : 5;
    unsigned long long wide : 60;
    unsigned full : 28;
};
union byte {
    struct {
        unsigned char low : 4, high : 4;
    } halves;
    unsigned char whole;
};
int main(int argc, char **argv) {
    struct fields f;
    union byte b;
    (void)argv;
    memset(&f, 0, sizeof f);
    f.small = 5u * (unsigned)argc;
    f.negative = -3;
    f.wide = 1023;
    f.full = 0xfffffff;
    b.halves.low = 5;
    b.halves.high = 10;
    printf("%zu: %u %d %llu %u %x\n", sizeof f, f.small, f.negative, (unsigned long long)f.wide,
           f.full * 16u + 15u, b.whole);
    return 0;
}
