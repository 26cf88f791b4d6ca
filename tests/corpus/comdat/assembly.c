// Section groups written by hand: of two with one signature the linker keeps one.
//# Object: OTHER
//# Variants: pie no-pie+gc static
//# Output: 13 13
#define GROUP                                                                                                \
    ".section .text.grouped, \"axG\", @progbits, grouped, comdat\n.weak grouped\n.type grouped, @function\n" \
    "grouped: mov $13, %eax\n ret\n.size grouped, . - grouped\n.text\n"
__asm__(GROUP);
int grouped(void);
int other(void);
#ifdef OTHER
int other(void) { return grouped(); }
#else
#include <stdio.h>
int main(void) {
    printf("%d %d\n", grouped(), other());
    return 0;
}
#endif
