// A plugin registers a class; the program uses it through its base and compares the types.
//# Plugin: PLUGIN
//# Link: -rdynamic -ldl
//# Variants: pie no-pie+O2 pie+gc
//# Output: plugin codec, 0 known
#include <typeinfo>
struct Codec {
    virtual ~Codec() = default;
    virtual const char *name() const = 0;
};
extern "C" Codec *create();
#ifdef PLUGIN
struct PluginCodec final : Codec {
    const char *name() const override { return "plugin codec"; }
};
Codec *create() { return new PluginCodec; }
#else
#include <cstdio>
#include <dlfcn.h>
struct Known final : Codec {
    const char *name() const override { return "known"; }
};
int main() {
    void *plugin = dlopen("libPLUGIN.so", RTLD_LAZY);
    if (!plugin) {
        std::puts(dlerror());
        return 1;
    }
    Codec *codec = reinterpret_cast<Codec *(*)()>(dlsym(plugin, "create"))();
    std::printf("%s, %d known\n", codec->name(), typeid(*codec) == typeid(Known));
    delete codec;
}
#endif
