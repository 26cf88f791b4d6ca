// Weak references to functions that a library may have: one it has, one it has not.
//# Library: LIBRARY
//# Variants: pie no-pie pie+now
//# Output: present 5, absent
#ifdef LIBRARY
int present(void);
int needed(void);
int present(void) { return 5; }
int needed(void) { return 0; }
#else
#include <stdio.h>
int needed(void);
__attribute__((weak)) int present(void);
__attribute__((weak)) int absent(void);
int main(void) {
    printf("present %d, %s\n", present ? present() : -1, absent ? "there" : "absent");
    return needed();
}
#endif
