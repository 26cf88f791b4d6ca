// asm goto: jumps from assembly to labels of C, with a table of them beside.
//# Variants: pie+O2 no-pie static
//# Output: zero some zero
#include <stdio.h>
static const char *kind(int n) {
    __asm__ goto("test %0, %0\n\tjz %l1" : : "r"(n) : "cc" : zero);
    return "some";
zero:
    return "zero";
}
int main(void) {
    printf("%s %s %s\n", kind(0), kind(5), kind(0));
    return 0;
}
