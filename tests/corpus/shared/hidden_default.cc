// -fvisibility=hidden with exported classes, exceptions and typeinfo across.
//# Library: LIBRARY
//# Args: -fvisibility=hidden -fvisibility-inlines-hidden
//# Variants: pie pie+O2 no-pie pie+lto
//# Output: caught 8
#define API __attribute__((visibility("default")))
struct API Error {
    int code;
};
API void fail();
#ifdef LIBRARY
void fail() { throw Error{8}; }
#else
#include <cstdio>
int main() {
    try {
        fail();
    } catch (const Error &error) {
        std::printf("caught %d\n", error.code);
    }
}
#endif
