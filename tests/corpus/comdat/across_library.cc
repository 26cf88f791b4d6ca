// What is one in a program is one across its libraries: inline functions, statics, typeinfo, vtables.
//# Library: LIBRARY
//# Variants: pie no-pie pie+O2 pie+gc
//# Output: 2 same type
#include <typeinfo>
struct Shape {
    virtual ~Shape() = default;
    virtual int sides() const { return 0; }
};
template <int N> struct Polygon : Shape {
    int sides() const override { return N; }
};
inline int &counter() {
    static int value;
    return value;
}
template <typename T> struct Once { static inline int made = 0; };
Shape *make();
int *library_counter();
#ifdef LIBRARY
Shape *make() {
    Once<int>::made++;
    counter()++;
    return new Polygon<4>;
}
int *library_counter() { return &counter(); }
#else
#include <cstdio>
int main() {
    Shape *shape = make();
    counter() += Once<int>::made;
    bool type =
        typeid(*shape) == typeid(Polygon<4>) && dynamic_cast<Polygon<4> *>(shape) && shape->sides() == 4;
    std::printf("%d %s %s\n", counter(), library_counter() == &counter() ? "same" : "other",
                type ? "type" : "wrong");
    delete shape;
}
#endif
