// Two archives that need each other, in a group.
//# Archive: FIRST
//# Archive: SECOND
//# Link: -Wl,--start-group libFIRST.a libSECOND.a -Wl,--end-group
//# Variants: pie static
//# Output: 3
#ifdef FIRST
int second(int);
int first(int);
int first(int x) { return x ? second(x - 1) + 1 : 0; }
#elif defined SECOND
int first(int);
int second(int);
int second(int x) { return first(x); }
#else
#include <stdio.h>
int first(int);
int main(void) { printf("%d\n", first(3)); return 0; }
#endif
