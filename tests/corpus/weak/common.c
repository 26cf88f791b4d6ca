// Common symbols of several objects become one, of the largest size and alignment.
//# Args: -fcommon
//# Object: OTHER
//# Variants: no-pie pie static
//# Output: 77 aligned
#ifdef OTHER
int shared[100];
double strict __attribute__((aligned(256)));
void set(void);
void set(void) { shared[99] = 77; }
#else
#include <stdint.h>
#include <stdio.h>
int shared[100];
double strict;
void set(void);
int main(void) {
    set();
    printf("%d %s\n", shared[99], (uintptr_t)&strict % 256 ? "skew" : "aligned");
    return 0;
}
#endif
