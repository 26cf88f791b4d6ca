// --exclude-libs keeps what comes out of an archive from being exported.
//# Archive: HELPER
//# Link: libHELPER.a -Wl,--exclude-libs,ALL -rdynamic -ldl
//# Variants: pie no-pie
//# Output: helper 1 0
//# SkipLinker: wild (wild 0.10 exports them all the same)
#ifdef HELPER
int helper(void);
int helper(void) { return 1; }
#else
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int helper(void);
int main(void) {
    printf("helper %d %d\n", helper(), dlsym(RTLD_DEFAULT, "helper") != NULL);
    return dlsym(RTLD_DEFAULT, "main") == NULL;
}
#endif
