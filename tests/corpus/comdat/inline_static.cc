// A static of an inline function is one object, however many files have it.
//# Object: OTHER
//# Variants: pie no-pie+O2 static pie+gc pie+lto
//# Output: 1 2 3 same
struct Counter {
    int value = 0;
};
inline Counter &counter() {
    static Counter counter;
    return counter;
}
inline int next() { return ++counter().value; }
Counter *other_counter();
int other_next();
#ifdef OTHER
Counter *other_counter() { return &counter(); }
int other_next() { return next(); }
#else
#include <cstdio>
int main() {
    int one = next(), two = other_next(), three = next();
    std::printf("%d %d %d %s\n", one, two, three, other_counter() == &counter() ? "same" : "different");
}
#endif
