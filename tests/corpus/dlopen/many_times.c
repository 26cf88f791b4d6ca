// One plugin opened and closed a hundred times: its data are fresh each time, its code may lie elsewhere.
//# Plugin: PLUGIN
//# Link: -ldl
//# Variants: pie no-pie
//# Output: 100 times fresh
#ifdef PLUGIN
int next(void);
int next(void) {
    static int n;
    return ++n;
}
#else
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    int fresh = 0;
    for (int i = 0; i < 100; i++) {
        void *plugin = dlopen("libPLUGIN.so", RTLD_NOW);
        int (*next)(void);
        if (!plugin)
            return puts(dlerror());
        *(void **)&next = dlsym(plugin, "next");
        fresh += next() == 1 && next() == 2;
        dlclose(plugin);
    }
    printf("%d times fresh\n", fresh);
    return 0;
}
#endif
