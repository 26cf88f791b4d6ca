// Hidden, protected and internal symbols of a library.
//# Library: LIBRARY
//# Link: -ldl
//# Variants: pie no-pie pie+O2 pie+lto pie+hidden
//# Output: 6 library hidden
#define PUBLIC __attribute__((visibility("default")))
PUBLIC int sum(void);
PUBLIC const char *ask(void);
#ifdef LIBRARY
__attribute__((visibility("hidden"))) int hidden = 1;
__attribute__((visibility("internal"))) int internal = 2;
__attribute__((visibility("protected"))) const char *name(void);
const char *name(void) { return "library"; }
int sum(void) {
    static int local = 3;
    return hidden + internal + local;
}
const char *ask(void) { return name(); }
#else
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
PUBLIC const char *name(void);
const char *name(void) { return "program"; }
int main(void) {
    const char *found = dlsym(RTLD_DEFAULT, "hidden") ? "visible" : "hidden";
    printf("%d %s %s\n", sum(), ask(), found);
    return 0;
}
#endif
