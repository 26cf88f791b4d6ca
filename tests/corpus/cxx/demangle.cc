// Names of types made readable by the run-time library.
//# Variants: pie static
//# Output: Box<std::pair<int, char> > main::Local
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <typeindex>
#include <typeinfo>
#include <utility>
template <typename T> struct Box {};
static void show(const std::type_info &type, const char *after) {
    int status = 0;
    char *name = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
    std::printf("%s%s", name, after);
    std::free(name);
}
int main() {
    struct Local {};
    show(typeid(Box<std::pair<int, char>>), " ");
    show(typeid(Local), "\n");
}
