// A version script hides everything but what it names, by patterns too.
//# File: exports.map V1 { global: visible; pub_*; local: *; };
//# Library: LIBRARY -Wl,--version-script=exports.map
//# Link: -ldl
//# Variants: pie+O2 no-pie pie+gc pie+lto
//# Output: 1 1 0
#ifdef LIBRARY
int visible(void);
int pub_one(void);
int invisible(void);
int visible(void) { return invisible(); }
int pub_one(void) { return 1; }
int invisible(void) { return 1; }
#else
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int visible(void);
int pub_one(void);
int main(void) {
    printf("%d %d %d\n", visible(), pub_one(), dlsym(RTLD_DEFAULT, "invisible") != NULL);
    return 0;
}
#endif
