// The large model reaches everything by 64-bit addresses.
//# Args: -mcmodel=large
//# Variants: no-pie static pie
//# Object: OTHER
//# Output: 4 5
#ifdef OTHER
int other(int x);
int variable = 5;
int other(int x) { return x + 1; }
#else
#include <stdio.h>
int other(int x);
extern int variable;
int main(void) {
    printf("%d %d\n", other(3), variable);
    return 0;
}
#endif
