// Covariant results: the thunk adjusts what comes back, through multiple inheritance.
//# Variants: pie no-pie+O2
//# Output: 2 2 same
#include <cstdio>
struct A {
    int a = 1;
    virtual ~A() = default;
};
struct B {
    int b = 2;
    virtual ~B() = default;
    virtual B *clone() const { return new B(*this); }
};
struct C : A, B {
    C *clone() const override { return new C(*this); }
};
int main() {
    C c;
    const B &base = c;
    B *copy = base.clone();
    auto *whole = dynamic_cast<C *>(copy);
    std::printf("%d %d %s\n", copy->b, whole->b, static_cast<B *>(whole) == copy ? "same" : "other");
    delete copy;
}
