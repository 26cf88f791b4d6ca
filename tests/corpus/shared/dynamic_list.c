// --dynamic-list exports one function of the program, and no other.
//# File: exports.list { exported; };
//# Link: -Wl,--dynamic-list=exports.list -ldl
//# Variants: pie no-pie pie+gc
//# Output: 1 0
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int exported(void);
int kept(void);
int exported(void) { return 1; }
int kept(void) { return 1; }
int main(void) {
    printf("%d %d\n", dlsym(RTLD_DEFAULT, "exported") != NULL, dlsym(RTLD_DEFAULT, "kept") != NULL);
    return kept() != 1;
}
