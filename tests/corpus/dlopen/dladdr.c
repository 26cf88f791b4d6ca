// dladdr names functions of the program and the library, and the file they are in.
//# Library: LIBRARY
//# Link: -rdynamic -ldl
//# Variants: pie no-pie+O2 pie+hash
//# Output: mine in program
//# Output: theirs in libLIBRARY.so
#define _GNU_SOURCE
int theirs(void);
#ifdef LIBRARY
int theirs(void) { return 0; }
#else
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int mine(void);
int mine(void) { return 0; }
static void show(void *address) {
    Dl_info info;
    if (!dladdr(address, &info)) {
        puts("unknown");
        return;
    }
    printf("%s in %s\n", info.dli_sname, strrchr(info.dli_fname, '/') + 1);
}
int main(void) {
    void *addresses[2];
    *(int (**)(void)) & addresses[0] = mine;
    addresses[1] = dlsym(RTLD_DEFAULT, "theirs");
    show(addresses[0]);
    show(addresses[1]);
    return mine() + theirs();
}
#endif
