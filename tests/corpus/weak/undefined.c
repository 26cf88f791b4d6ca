// Weak references to functions and data that nobody defines are null.
//# SkipLinker: gold pie (gold 1.16 takes a hidden weak reference that nobody defines for the start of a PIE)
//# Variants: no-pie pie static static-pie pie+O2+gc pie+noplt
//# Output: 0 0 0
#include <stdio.h>
extern void nowhere(void) __attribute__((weak));
extern int nothing __attribute__((weak));
extern void unseen(void) __attribute__((weak, visibility("hidden")));
int main(void) {
    printf("%d %d %d\n", nowhere != NULL, &nothing != NULL, unseen != NULL);
    if (nowhere)
        nowhere();
    if (unseen)
        unseen();
    return 0;
}
