// --as-needed drops a library that nothing needs: its constructor is not run.
//# Library: NEEDED
//# Plugin: UNNEEDED
//# Link: -Wl,--as-needed libUNNEEDED.so
//# Variants: pie+now no-pie
//# Output: needed 1
#include <stdio.h>
#ifdef NEEDED
int needed(void);
int needed(void) { return 1; }
#elif defined UNNEEDED
__attribute__((constructor)) static void up(void) { puts("unneeded is loaded"); }
#else
int needed(void);
int main(void) {
    printf("needed %d\n", needed());
    return 0;
}
#endif
