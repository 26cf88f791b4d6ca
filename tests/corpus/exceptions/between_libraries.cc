// Thrown in one library, passed through another without handlers, caught by the base class in the program.
//# Library: THROWER
//# Library: PASSER libTHROWER.so
//# Variants: pie no-pie pie+now
//# Output: passed caught base
#include <cstdio>
struct __attribute__((visibility("default"))) Base {
    virtual ~Base();
    virtual const char *what() const;
};
struct Derived : Base {
    const char *what() const override { return "base"; }
};
void thrower();
void passer();
#if defined THROWER
Base::~Base() = default;
const char *Base::what() const { return "plain"; }
void thrower() { throw Derived(); }
#elif defined PASSER
struct Say {
    ~Say() { std::printf("passed "); }
};
void passer() {
    Say say;
    thrower();
}
#else
int main() {
    try {
        passer();
    } catch (const Base &error) {
        std::printf("caught %s\n", error.what());
    }
}
#endif
