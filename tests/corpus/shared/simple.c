// A library that the program calls, and a variable of it.
//# Library: LIBRARY
//# Variants: pie no-pie pie+now pie+lazy pie+noplt pie+hash pie+build-id pie+strip pie+debug pie+relr pie+cet pie+lto
//# Output: 3 4 5
int add(int a, int b);
extern int variable;
extern const char *const names[];
#ifdef LIBRARY
int variable = 3;
const char *const names[] = {"x", "5"};
int add(int a, int b) { return a + b; }
#else
#include <stdio.h>
int main(void) {
    printf("%d %d %s\n", variable, add(variable, 1), names[1]);
    return 0;
}
#endif
