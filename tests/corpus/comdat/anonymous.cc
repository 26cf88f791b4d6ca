// Equal names with internal linkage in two files stay apart.
//# Object: OTHER
//# Variants: pie pie+lto static+lto no-pie+O2
//# Output: 1 2 one two
#include <cstdio>
int other(const char **name);
#ifdef OTHER
namespace {
struct Thing {
    const char *name() { return "two"; }
};
int value = 2;
} // namespace
int other(const char **name) {
    *name = Thing().name();
    return value;
}
#else
namespace {
struct Thing {
    const char *name() { return "one"; }
};
int value = 1;
} // namespace
int main() {
    const char *name;
    int theirs = other(&name);
    std::printf("%d %d %s %s\n", value, theirs, Thing().name(), name);
}
#endif
