// Common symbols of several objects become one, of zeros.
//# Args: -fcommon
//# Object: OTHER
//# Variants: no-pie pie static
//# Output: 77 0
#ifdef OTHER
int shared[100];
long single;
void set(void);
void set(void) { shared[99] = 77; }
#else
#include <stdio.h>
int shared[100];
long single;
void set(void);
int main(void) {
    set();
    printf("%d %ld\n", shared[99], single);
    return 0;
}
#endif
