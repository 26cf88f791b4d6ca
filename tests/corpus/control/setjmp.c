// longjmp over several frames, with values in memory and in registers.
//# Args: -Wno-unknown-warning-option -Wno-infinite-recursion
//# Variants: pie no-pie+O2 static static-pie pie+lto
//# Output: back with 3 after 10
#include <setjmp.h>
#include <stdio.h>
static jmp_buf target;
static void dig(int depth) {
    if (depth)
        dig(depth - 1);
    else
        longjmp(target, 3);
}
int main(void) {
    volatile int before = 10;
    int value = setjmp(target);
    if (value == 0)
        dig(20);
    printf("back with %d after %d\n", value, before);
    return 0;
}
