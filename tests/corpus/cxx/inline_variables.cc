// Inline variables and templates' statics are one object, in two objects and a library.
//# Object: OTHER
//# Library: LIBRARY
//# Variants: pie+O2 no-pie
//# Output: 4 4
template <typename T> struct Counter { static inline int count = 1; };
inline int shared_number = 1;
int in_object();
int in_library();
#if defined OTHER
int in_object() { return ++shared_number, ++Counter<int>::count; }
#elif defined LIBRARY
int in_library() { return ++shared_number, ++Counter<int>::count; }
#else
#include <cstdio>
int main() {
    in_object();
    in_library();
    ++shared_number;
    ++Counter<int>::count;
    std::printf("%d %d\n", shared_number, Counter<int>::count);
}
#endif
