// A library made of a whole archive.
//# Archive: PART
//# Link: -Wl,--whole-archive libPART.a -Wl,--no-whole-archive
//# Variants: static pie no-pie+gc
//# Output: registered
#include <stdio.h>
#ifdef PART
extern const char *registered;
__attribute__((constructor)) static void up(void) { registered = "registered"; }
#else
const char *registered = "nothing";
int main(void) {
    puts(registered);
    return 0;
}
#endif
