// Offsets between labels, resolved by the assembler, in read-only data.
//# Variants: pie+O2 no-pie static
//# Output: cab
#include <stdio.h>
int main(void) {
    static const int offsets[] = {&&a - &&a, &&b - &&a, &&c - &&a, &&end - &&a};
    const int order[] = {2, 0, 1, 3};
    int step = 0;
#define NEXT goto *(&&a + offsets[order[step++]])
    NEXT;
a:
    putchar('a');
    NEXT;
b:
    putchar('b');
    NEXT;
c:
    putchar('c');
    NEXT;
end:
    putchar('\n');
    return 0;
}
