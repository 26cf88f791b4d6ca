// An exception is thrown and caught before main, in the constructor of a static object.
//# Variants: pie static no-pie+O2
//# Output: caught 1
#include <cstdio>
struct Careful {
    int caught = 0;
    Careful() {
        try {
            throw 1;
        } catch (int value) {
            caught = value;
        }
    }
};
static Careful careful;
int main() { std::printf("caught %d\n", careful.caught); }
