// Absolute symbols, from the command line and from assembly.
//# Link: -Wl,--defsym=SIZE=0x1234
//# Variants: no-pie static
//# Output: 1234 55
#include <stdint.h>
#include <stdio.h>
extern char SIZE[], CONSTANT[];
__asm__(".globl CONSTANT\n.set CONSTANT, 0x55");
int main(void) {
    printf("%x %x\n", (unsigned)(uintptr_t)SIZE, (unsigned)(uintptr_t)CONSTANT);
    return 0;
}
