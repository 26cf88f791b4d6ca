// An interpreter with a table of labels; the table needs relocations.
//# Variants: pie no-pie+O2 static+O2 pie+O2+lto pie+gc pie+relr
//# Output: 120
#include <stdio.h>
static int run(const unsigned char *code) {
    static const void *const labels[] = {&&push, &&multiply, &&decrement, &&jump, &&halt};
    int accumulator = 1, counter = 0;
#define NEXT goto *labels[*code++]
    const unsigned char *start = code;
    NEXT;
push:
    counter = *code++;
    NEXT;
multiply:
    accumulator *= counter;
    NEXT;
decrement:
    counter--;
    NEXT;
jump:
    code = counter ? start + *code : code + 1;
    NEXT;
halt:
    return accumulator;
}
int main(void) {
    const unsigned char program[] = {0, 5, 1, 2, 3, 2, 4};
    printf("%d\n", run(program));
    return 0;
}
