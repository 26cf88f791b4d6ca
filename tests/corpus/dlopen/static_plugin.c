// A plugin that calls back into the program, which exports only what a list names.
//# File: exports.list { callback; };
//# Plugin: PLUGIN -Wl,--unresolved-symbols=ignore-all
//# Link: -Wl,--dynamic-list=exports.list -ldl
//# Variants: pie no-pie
//# Output: callback 6
#ifdef PLUGIN
int callback(int n);
int run(int n);
int run(int n) { return callback(n + 1); }
#else
#include <dlfcn.h>
#include <stdio.h>
int callback(int n);
int callback(int n) { return n * 2; }
int main(void) {
    void *plugin = dlopen("libPLUGIN.so", RTLD_NOW);
    int (*run)(int);
    if (!plugin)
        return puts(dlerror());
    *(void **)&run = dlsym(plugin, "run");
    printf("callback %d\n", run(2));
    return 0;
}
#endif
