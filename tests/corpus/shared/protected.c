// Protected and internal visibility: calls inside a library are not interposed.
//# Library: LIBRARY
//# Variants: pie pie+now
//# Output: own 1, interposed 20
#ifdef LIBRARY
int through_protected(void);
int through_default(void);
__attribute__((visibility("protected"))) int guarded(void) { return 1; }
int open_to_all(void);
int open_to_all(void) { return 2; }
int through_protected(void) { return guarded(); }
int through_default(void) { return open_to_all(); }
#else
#include <stdio.h>
int through_protected(void);
int through_default(void);
int open_to_all(void);
int open_to_all(void) { return 20; }
int main(void) {
    printf("own %d, interposed %d\n", through_protected(), through_default());
    return 0;
}
#endif
