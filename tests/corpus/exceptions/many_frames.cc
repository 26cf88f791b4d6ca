// Through ten thousand frames, each with something to clean up.
//# Variants: pie no-pie+O2 static
//# Output: 10000 cleaned
#include <cstdio>
static int cleaned;
struct Cleaner {
    ~Cleaner() { cleaned++; }
};
__attribute__((noinline)) static void deep(int depth) {
    Cleaner cleaner;
    if (depth == 1)
        throw depth;
    deep(depth - 1);
}
int main() {
    try {
        deep(10000);
    } catch (int) {
        std::printf("%d cleaned\n", cleaned);
    }
}
