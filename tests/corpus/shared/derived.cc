// The program derives from a class of a library, with multiple inheritance and thunks across the border.
//# Library: LIBRARY
//# Variants: pie no-pie pie+O2+gc pie+lto
//# Output: derived library 3
//# Output: gone
struct Left {
    virtual ~Left();
    virtual const char *left() { return "left"; }
};
struct Right {
    virtual ~Right();
    virtual int right();
    int value = 3;
};
struct Both : Left, Right {
    ~Both() override;
    const char *left() override;
};
int use(Right &right);
#ifdef LIBRARY
Left::~Left() {}
Right::~Right() {}
Both::~Both() {}
int Right::right() { return 0; }
const char *Both::left() { return "library"; }
int use(Right &right) { return right.right(); }
#else
#include <cstdio>
struct Derived : Both {
    ~Derived() override { std::puts("gone"); }
    int right() override { return value; }
};
int main() {
    Right *right = new Derived;
    Derived *derived = dynamic_cast<Derived *>(right);
    std::printf("%s %s %d\n", derived ? "derived" : "lost", derived->left(), use(*right));
    delete right;
}
#endif
