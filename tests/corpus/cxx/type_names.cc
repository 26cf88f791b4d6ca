// typeid of types of the program and the library, type_index, demangling.
//# Library: LIBRARY
//# Variants: pie no-pie+O2 pie+gc
//# Output: Widget<int> same
#include <typeinfo>
template <typename T> struct Widget { virtual ~Widget() = default; };
const std::type_info &of_library();
#ifdef LIBRARY
const std::type_info &of_library() {
    Widget<int> widget;
    const Widget<int> &reference = widget;
    return typeid(reference);
}
#else
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <typeindex>
int main() {
    char *name = abi::__cxa_demangle(typeid(Widget<int>).name(), nullptr, nullptr, nullptr);
    std::printf("%s %s\n", name, std::type_index(of_library()) == typeid(Widget<int>) ? "same" : "different");
    std::free(name);
}
#endif
