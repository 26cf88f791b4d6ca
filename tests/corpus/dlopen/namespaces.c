// dlmopen loads a second copy into a namespace of its own.
//# Plugin: PLUGIN
//# Link: -ldl
//# Variants: pie no-pie
//# Output: 1 2 1
#define _GNU_SOURCE
#ifdef PLUGIN
int next(void);
static int value;
int next(void) { return ++value; }
#else
#include <dlfcn.h>
#include <stdio.h>
static int call(void *plugin) {
    int (*next)(void);
    if (!plugin) {
        puts(dlerror());
        return -1;
    }
    *(void **)&next = dlsym(plugin, "next");
    return next();
}
int main(void) {
    void *one = dlopen("libPLUGIN.so", RTLD_NOW), *two = dlmopen(LM_ID_NEWLM, "libPLUGIN.so", RTLD_NOW);
    int first = call(one), second = call(one);
    printf("%d %d %d\n", first, second, call(two));
    return 0;
}
#endif
