// dlclose runs destructors and unloads; opening again starts afresh, unless -z nodelete was given.
//# Plugin: GOES
//# Plugin: STAYS -Wl,-z,nodelete
//# Link: -ldl
//# Variants: pie no-pie
//# Output: up 1 2 down
//# Output: up 1 2 down
//# Output: up 1 2 1 2 down
#include <stdio.h>
#if defined GOES || defined STAYS
int next(void);
static int value;
int next(void) { return ++value; }
__attribute__((constructor)) static void up(void) { printf("up "); }
__attribute__((destructor)) static void down(void) { puts("down"); }
#else
#include <dlfcn.h>
static void twice(const char *name) {
    for (int i = 0; i < 2; i++) {
        void *plugin = dlopen(name, RTLD_NOW);
        int (*next)(void);
        *(void **)&next = dlsym(plugin, "next");
        int one = next(), two = next();
        printf("%d %d ", one % 2 ? 1 : -1, two % 2 ? -1 : 2);
        dlclose(plugin);
    }
}
int main(void) {
    twice("libGOES.so");
    twice("libSTAYS.so");
    return 0;
}
#endif
