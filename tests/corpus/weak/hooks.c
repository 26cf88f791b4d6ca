// The usual way of optional parts: a library asks by weak symbols whether the program has a hook.
//# Library: LIBRARY
//# Link: -Wl,--export-dynamic
//# Variants: pie no-pie
//# Output: 9 -1
int ask(void);
int ask_other(void);
#ifdef LIBRARY
extern int hook(void) __attribute__((weak));
extern int other_hook(void) __attribute__((weak));
int ask(void) { return hook ? hook() : -1; }
int ask_other(void) { return other_hook ? other_hook() : -1; }
#else
#include <stdio.h>
int hook(void);
int hook(void) { return 9; }
int main(void) {
    printf("%d %d\n", ask(), ask_other());
    return 0;
}
#endif
