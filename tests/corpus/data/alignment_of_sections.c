// Sections of alignments from 1 to a window's, of data and of zeros: addresses are what they promise.
//# Variants: pie no-pie static
//# Output: aligned
#include <stdio.h>
static char a1 = 1;
static _Alignas(32) char a32 = 1;
static _Alignas(4096) char a4k = 1;
static _Alignas(65536) char a64k = 1, z64k;
static const _Alignas(4096) char c4k = 1;
int main(void) {
    const volatile char *addresses[] = {&a1, &a32, &a4k, &a64k, &z64k, &c4k};
    unsigned long wanted[] = {1, 32, 4096, 65536, 65536, 4096};
    int sum = 0;
    for (int i = 0; i < 6; i++) {
        if ((unsigned long)addresses[i] % wanted[i])
            return 1;
        sum += *addresses[i];
    }
    puts(sum == 5 ? "aligned" : "changed");
    return 0;
}
