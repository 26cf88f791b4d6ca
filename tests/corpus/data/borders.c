// The symbols of the linker's own: __executable_start, etext, edata, end, in that order around what they bound.
//# Variants: pie no-pie static static-pie pie+gc
//# Output: in order
#include <stdint.h>
#include <stdio.h>
extern char __executable_start[], etext[], edata[], end[], __bss_start[], __ehdr_start[];
static int data = 1, zero;
int main(void) {
    const uintptr_t order[] = {(uintptr_t)__executable_start,
                               (uintptr_t)main,
                               (uintptr_t)etext,
                               (uintptr_t)&data,
                               (uintptr_t)edata,
                               (uintptr_t)&zero,
                               (uintptr_t)end};
    int wrong = __ehdr_start[1] != 'E' || (uintptr_t)__bss_start > (uintptr_t)&zero;
    for (int i = 1; i < 7; i++)
        wrong |= (order[i - 1] > order[i]) << i;
    if (wrong)
        printf("wrong %x\n", (unsigned)wrong);
    else
        puts("in order");
    return 0;
}
