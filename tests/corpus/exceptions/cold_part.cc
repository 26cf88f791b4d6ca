// A handler that the compiler moves into a cold section of its own, far from the hot part of its function.
//# Variants: pie+O2 static+O2 pie+O2+gc no-pie+O3
//# Output: 41 caught
#include <cstdio>
__attribute__((cold, noinline)) static void fail(int value) { throw value; }
__attribute__((hot, noinline)) static int work(int value) {
    if (__builtin_expect(value == 42, 0))
        fail(value);
    return value;
}
int main() {
    int reached = 0;
    try {
        for (int i = 0; i < 100; i++)
            reached = work(i);
    } catch (int) {
        std::printf("%d caught\n", reached);
    }
}
