// Another entry point than _start, no start files, but the C library.
//# Args: -fno-stack-protector
//# Link: -nostartfiles -Wl,-e,begin
//# Variants: no-pie pie
//# Expect: 8
//# Output: own entry
#include <stdio.h>
#include <stdlib.h>
__asm__(".text\n.globl begin\nbegin: xor %ebp, %ebp\n and $-16, %rsp\n call begin_c\n hlt");
void begin_c(void);
__attribute__((used)) void begin_c(void) {
    puts("own entry");
    exit(8);
}
