// Classes of one name in unnamed namespaces of two objects stay apart; templates over them too.
//# Object: OTHER
//# Variants: pie+O0 pie+O2+gc static
//# Output: 1 2
template <typename T> int value(T t) { return t.number(); }
int other();
#ifdef OTHER
namespace {
struct Thing {
    int number() { return 2; }
};
} // namespace
int other() { return value(Thing()); }
#else
#include <cstdio>
namespace {
struct Thing {
    int number() { return 1; }
};
} // namespace
int main() { std::printf("%d %d\n", value(Thing()), other()); }
#endif
