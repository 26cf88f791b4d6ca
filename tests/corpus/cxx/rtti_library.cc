// Types of a library seen in the program: dynamic_cast and typeid across, by address or by name.
//# Library: LIBRARY
//# Variants: pie pie+hash no-pie+O2
//# Output: Circle circle yes no
struct Shape {
    virtual ~Shape();
    virtual const char *name() const;
};
struct Circle : Shape {
    const char *name() const override;
};
Shape *make();
#ifdef LIBRARY
Shape::~Shape() = default;
const char *Shape::name() const { return "shape"; }
const char *Circle::name() const { return "circle"; }
Shape *make() { return new Circle; }
#else
#include <cstdio>
#include <typeinfo>
struct Square : Shape {};
int main() {
    Shape *shape = make();
    const bool circle = typeid(*shape) == typeid(Circle);
    std::printf("%s %s %s %s\n", typeid(Circle).name() + 1, shape->name(), circle ? "yes" : "no",
                dynamic_cast<Square *>(shape) ? "yes" : "no");
    delete shape;
}
#endif
