// Instances of templates, their static members and inline variables in several files.
//# Object: OTHER
//# Variants: static pie pie+O2+gc no-pie+lto pie+icf
//# Output: 6 6 42
template <typename T> struct Holder {
    static T value;
    static T add(T x) { return value += x; }
};
template <typename T> T Holder<T>::value = 1;
inline int variable = 42;
template <typename T> T twice(T x) { return x + x; }
int other();
const int *other_variable();
#ifdef OTHER
int other() { return Holder<int>::add(2) + twice(1); }
const int *other_variable() { return &variable; }
template int twice<int>(int);
#else
#include <cstdio>
extern template int twice<int>(int);
int main() {
    int first = other() + 1, second = Holder<int>::add(3);
    std::printf("%d %d %d\n", first, second, other_variable() == &variable ? variable : -1);
}
#endif
