// A function try block of a constructor, and a failing member initialiser.
//# Variants: pie+O2 static
//# Output: translated 5
#include <cstdio>
struct Member {
    explicit Member(int value) {
        if (value > 4)
            throw value;
    }
};
struct Owner {
    Member member;
    explicit Owner(int value) try : member(value) {
    } catch (int) {
        throw static_cast<long>(value);
    }
};
int main() {
    Owner fine(4);
    try {
        Owner wrong(5);
    } catch (long value) {
        std::printf("translated %ld\n", value);
    }
}
