// Pointers to members, data, plain and virtual functions, in a table and through a base.
//# Variants: pie+O2 static pie+relr
//# Output: 3 30 300 value 7
#include <cstdio>
struct Base {
    int value = 7;
    virtual ~Base() = default;
    int plain(int n) { return n; }
    virtual int changed(int n) { return n * 2; }
};
struct Derived : Base {
    int changed(int n) override { return n * 10; }
    int own(int n) { return n * 100; }
};
using Method = int (Derived::*)(int);
static const Method methods[] = {&Derived::plain, &Derived::changed, &Derived::own};
int main() {
    Derived object;
    for (Method method : methods)
        std::printf("%d ", (object.*method)(3));
    int Base::*member = &Base::value;
    std::printf("value %d\n", object.*member);
}
