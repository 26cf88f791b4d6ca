// A constructor in an archive runs only if something pulls its member in.
//# Archive: WANTED
//# Archive: UNWANTED
//# Link: libUNWANTED.a libWANTED.a
//# Variants: pie static no-pie+gc
//# Output: wanted 1
#include <stdio.h>
#ifdef WANTED
int wanted;
__attribute__((constructor)) static void up(void) { wanted++; }
#elif defined UNWANTED
int unwanted;
__attribute__((constructor)) static void up(void) { puts("unwanted"); }
#else
extern int wanted;
int main(void) {
    printf("wanted %d\n", wanted);
    return 0;
}
#endif
