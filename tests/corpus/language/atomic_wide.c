// 16-byte atomics by the processor's own instruction, no libatomic.
//# Args: -mcx16
//# Variants: pie+O2 no-pie
//# Output: 7 9 swapped
#include <stdio.h>
static __attribute__((aligned(16))) unsigned __int128 value = ((unsigned __int128)7 << 64) | 8;
int main(void) {
    unsigned char done;
    unsigned long low = 8, high = 7;
    __asm__ volatile("lock cmpxchg16b %1\n\tsete %0"
                     : "=q"(done), "+m"(value), "+a"(low), "+d"(high)
                     : "b"(9ul), "c"(7ul)
                     : "cc", "memory");
    printf("%lu %lu %s\n", (unsigned long)(value >> 64), (unsigned long)value, done ? "swapped" : "kept");
    return 0;
}
