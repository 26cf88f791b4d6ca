// Virtual bases, thunks, covariant results, pointers to members.
//# Variants: pie no-pie+O2 static+O2 pie+gc pie+lto pie+relr
//# Output: bottom left bottom 4
#include <cstdio>
struct Top {
    int value = 4;
    virtual ~Top() = default;
    virtual Top *self() { return this; }
    virtual const char *name() { return "top"; }
};
struct Left : virtual Top {
    Left *self() override { return this; }
    virtual const char *side() { return "left"; }
};
struct Right : virtual Top {
    virtual const char *side() { return "right"; }
};
struct Bottom : Left, Right {
    Bottom *self() override { return this; }
    const char *name() override { return "bottom"; }
    using Left::side;
};
int main() {
    Bottom bottom;
    Top *top = &bottom;
    const char *(Top::*name)() = &Top::name;
    int Top::*value = &Top::value;
    std::printf("%s %s %s %d\n", top->self()->name(), static_cast<Left &>(bottom).side(), (top->*name)(),
                top->*value);
}
