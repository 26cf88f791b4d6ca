// A weak reference pulls nothing out of an archive; a strong one does, and then the weak one is bound too.
//# Archive: LEFT
//# Archive: TAKEN
//# Link: libLEFT.a libTAKEN.a
//# Variants: static pie no-pie
//# Output: left 0 taken 1
#ifdef LEFT
void left(void);
void left(void) {}
#elif defined TAKEN
void taken(void);
int strong(void);
void taken(void) {}
int strong(void) { return 0; }
#else
#include <stdio.h>
extern void left(void) __attribute__((weak));
extern void taken(void) __attribute__((weak));
int strong(void);
int main(void) {
    printf("left %d taken %d\n", left != NULL, taken != NULL);
    return strong();
}
#endif
