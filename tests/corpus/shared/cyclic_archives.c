// Two archives that need each other, in a group: the first is needed again after the second.
//# Archive: LOW
//# Archive: HIGH
//# Link: -Wl,--start-group libLOW.a libHIGH.a -Wl,--end-group
//# Variants: pie static no-pie
//# Output: 3
int low(int);
int high(int);
#ifdef LOW
int low(int x) { return x ? high(x - 1) + 1 : 0; }
#elif defined HIGH
int high(int x) { return low(x); }
#else
#include <stdio.h>
int main(void) {
    printf("%d\n", high(3));
    return 0;
}
#endif
