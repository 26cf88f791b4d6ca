// dlsym finds what -rdynamic exports, and the plugin calls back into the program.
//# Plugin: PLUGIN
//# Link: -rdynamic -ldl
//# Variants: pie no-pie pie+now pie+gc
//# Output: plugin of program 5
#ifdef PLUGIN
int provide(int x);
int run(void);
int run(void) { return provide(4); }
#else
#include <dlfcn.h>
#include <stdio.h>
int provide(int x);
int provide(int x) { return x + 1; }
int main(void) {
    void *plugin = dlopen("libPLUGIN.so", RTLD_NOW | RTLD_LOCAL);
    int (*run)(void);
    if (!plugin) {
        puts(dlerror());
        return 1;
    }
    *(void **)&run = dlsym(plugin, "run");
    printf("plugin of %s %d\n", dlsym(NULL, "provide") ? "program" : "nobody", run());
    return dlclose(plugin);
}
#endif
