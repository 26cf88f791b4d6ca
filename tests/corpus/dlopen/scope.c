// RTLD_LOCAL hides, RTLD_GLOBAL shows, RTLD_DEEPBIND prefers the library's own.
//# Plugin: PLUGIN
//# Link: -rdynamic -ldl
//# Variants: pie no-pie
//# Output: local 0 global 1 program
#define _GNU_SOURCE
const char *name(void);
const char *ask(void);
#ifdef PLUGIN
const char *name(void) { return "plugin"; }
const char *ask(void) { return name(); }
#else
#include <dlfcn.h>
#include <stdio.h>
const char *name(void) { return "program"; }
int main(void) {
    void *plugin = dlopen("libPLUGIN.so", RTLD_NOW | RTLD_LOCAL);
    const char *(*function)(void);
    int before = dlsym(RTLD_DEFAULT, "ask") != NULL;
    dlopen("libPLUGIN.so", RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    *(void **)&function = dlsym(plugin, "ask");
    printf("local %d global %d %s\n", before, dlsym(RTLD_DEFAULT, "ask") != NULL, function());
    return 0;
}
#endif
