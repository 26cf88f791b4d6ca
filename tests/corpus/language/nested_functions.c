// GCC's nested functions without a trampoline: they reach their parent's variables.
//# SkipLinker: clang (clang has no nested functions)
//# Variants: pie+O2 no-pie
//# Output: 55
#include <stdio.h>
int main(void) {
    int sum = 0;
    void add(int n) {
        sum += n;
        if (n > 1)
            add(n - 1);
    }
    add(10);
    printf("%d\n", sum);
    return 0;
}
