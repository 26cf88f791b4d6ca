// A class thrown in a library is caught by its base in the program, and the other way round.
//# Variants: pie no-pie pie+O2+gc pie+now pie+lazy pie+lto
//# Library: THROWER
//# Output: library error 3
//# Output: library caught 4
struct Error {
    virtual ~Error();
    virtual int code() const = 0;
};
void call(void (*function)());
void fail(int code);
#ifdef THROWER
#include <cstdio>
Error::~Error() {}
struct Special : Error {
    int value;
    explicit Special(int v) : value(v) {}
    int code() const override { return value; }
};
void fail(int code) { throw Special(code); }
void call(void (*function)()) {
    try {
        function();
    } catch (const Error &error) {
        std::printf("library caught %d\n", error.code());
    }
}
#else
#include <cstdio>
struct Own : Error {
    int code() const override { return 4; }
};
int main() {
    try {
        fail(3);
    } catch (const Error &error) {
        std::printf("library error %d\n", error.code());
        std::fflush(stdout);
    }
    call([] { throw Own(); });
}
#endif
