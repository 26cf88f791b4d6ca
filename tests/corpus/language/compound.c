// Compound literals, designated initialisers with ranges, and pointers to them in static data.
//# Variants: pie pie+relr static
//# Output: 0 5 5 9 b c
#include <stdio.h>
static const int table[10] = {[1 ... 3] = 5, [9] = 9};
static const char *const *const names = (const char *const[]){"a", "b", "c", NULL};
int main(void) {
    printf("%d %d %d %d %s %s\n", table[0], table[1], table[3], table[9], names[1], names[2]);
    return 0;
}
