// A diamond of virtual bases: constructors with a VTT, thunks, casts across and down.
//# Variants: pie+O2 pie+relr static
//# Output: Top Left Right Bottom right of Bottom ~Bottom ~Right ~Left ~Top
#include <cstdio>
struct Top {
    const char *name;
    explicit Top(const char *n) : name(n) { std::printf("Top "); }
    virtual ~Top() { std::printf("~Top\n"); }
    virtual const char *side() const { return "top"; }
};
struct Left : virtual Top {
    Left() : Top("Left") { std::printf("Left "); }
    ~Left() override { std::printf("~Left "); }
    long filler[3] = {};
};
struct Right : virtual Top {
    Right() : Top("Right") { std::printf("Right "); }
    ~Right() override { std::printf("~Right "); }
    const char *side() const override { return "right"; }
};
struct Bottom : Left, Right {
    Bottom() : Top("Bottom") { std::printf("Bottom "); }
    ~Bottom() override { std::printf("~Bottom "); }
};
int main() {
    Top *top = new Bottom;
    auto *left = dynamic_cast<Left *>(top);
    auto *right = dynamic_cast<Right *>(left);
    std::printf("%s of %s ", right->side(), left->name);
    delete top;
}
