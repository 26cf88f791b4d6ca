// RTLD_DEEPBIND makes a plugin prefer its own symbols to the program's.
//# Plugin: PLUGIN
//# Link: -rdynamic -ldl
//# Variants: no-pie pie
//# Output: plugin
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
    void *plugin = dlopen("libPLUGIN.so", RTLD_NOW | RTLD_DEEPBIND);
    const char *(*function)(void);
    *(void **)&function = dlsym(plugin, "ask");
    puts(function());
    return 0;
}
#endif
