// Data and zero data with alignments up to a window, and read-only data with a page.
//# SkipLinker: wild (wild 0.10 takes no alignment of a window: Unsupported alignment 0x200000)
//# Variants: no-pie pie static
//# Output: 0 0 0 9
#include <stdint.h>
#include <stdio.h>
static char zero[10] __attribute__((aligned(2 << 20)));
static char data[10] __attribute__((aligned(1 << 16))) = {9};
static const char constant[10] __attribute__((aligned(4096))) = {1};
int main(void) {
    const char *volatile addresses[] = {zero, data, constant};
    printf("%d %d %d %d\n", (int)((uintptr_t)addresses[0] % (2 << 20)),
           (int)((uintptr_t)addresses[1] % (1 << 16)), (int)((uintptr_t)addresses[2] % 4096),
           addresses[1][0]);
    return 0;
}
