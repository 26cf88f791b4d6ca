// An exception out of a library that was loaded with dlopen.
//# Plugin: PLUGIN
//# Link: -rdynamic -ldl
//# Variants: pie no-pie+O2
//# Output: plugin failed
#include <cstdio>
#include <stdexcept>
#ifdef PLUGIN
extern "C" void run();
void run() { throw std::runtime_error("plugin failed"); }
#else
#include <dlfcn.h>
int main() {
    void *plugin = dlopen("libPLUGIN.so", RTLD_NOW);
    if (!plugin) {
        std::puts(dlerror());
        return 1;
    }
    try {
        reinterpret_cast<void (*)()>(dlsym(plugin, "run"))();
    } catch (const std::exception &error) {
        std::puts(error.what());
    }
}
#endif
