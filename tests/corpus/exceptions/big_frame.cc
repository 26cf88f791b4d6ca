// Unwinding frames with dynamic stack, realigned stack and callee-saved registers.
//# Args: -Wno-vla -Wno-vla-extension -Wno-unknown-warning-option -Wno-vla-cxx-extension
//# Variants: pie+O2 static+O0
//# Output: 120 at depth 0
#include <alloca.h>
#include <cstdio>
#include <cstring>
__attribute__((noinline)) static int dig(int depth, int sum) {
    alignas(64) volatile char aligned[64] = {1};
    char *room = static_cast<char *>(alloca(depth * 100 + 1));
    std::memset(room, depth, depth * 100 + 1);
    if (depth == 0)
        throw sum;
    return dig(depth - 1, sum + room[depth]) + aligned[0];
}
int main() {
    try {
        dig(15, 0);
    } catch (int sum) {
        std::printf("%d at depth 0\n", sum);
    }
}
