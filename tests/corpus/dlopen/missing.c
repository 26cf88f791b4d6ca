// Errors of the loader are as they were.
//# Plugin: PLUGIN
//# Link: -ldl
//# Variants: pie no-pie
//# Output: libnowhere.so: cannot open shared object file: No such file or directory
//# Output: no symbol
#ifdef PLUGIN
int something = 1;
#else
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    if (!dlopen("libnowhere.so", RTLD_NOW))
        puts(dlerror());
    void *plugin = dlopen("libPLUGIN.so", RTLD_NOW);
    puts(dlsym(plugin, "something_else") ? "symbol" : "no symbol");
    return !dlsym(plugin, "something");
}
#endif
