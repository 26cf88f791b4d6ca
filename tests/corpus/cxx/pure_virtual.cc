// A pure virtual call during construction ends the program.
//# Variants: pie no-pie+O2
//# Expect: -6
#include <sys/resource.h>
struct Base {
    Base();
    virtual void pure() = 0;
    virtual ~Base() = default;
};
static void call(Base *base) { base->pure(); }
Base::Base() { call(this); }
struct Derived : Base {
    void pure() override {}
};
int main() {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    Derived derived;
}
