// Volatile objects are touched as often as written; a handler sees each value.
//# Variants: pie+O3 no-pie+O0
//# Output: 5 reads
#include <setjmp.h>
#include <stdio.h>
static jmp_buf target;
static volatile int cell;
static int observe(volatile int *p, int times) {
    int reads = 0;
    for (int i = 0; i < times; i++) {
        *p = *p + 1;
        reads = *p;
    }
    return reads;
}
int main(void) {
    volatile int kept = 0;
    if (setjmp(target) == 0) {
        kept = observe(&cell, 5);
        longjmp(target, 1);
    }
    printf("%d reads\n", kept);
    return 0;
}
