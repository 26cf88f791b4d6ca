// Decimal floating point, done by libgcc; GCC alone has it.
//# SkipLinker: clang (clang has no decimal floating point)
//# Variants: pie+O2 static
//# Output: exact
#include <stdio.h>
int main(void) {
    volatile _Decimal64 tenth = 0.1DD, sum = 0;
    for (int i = 0; i < 10; i++)
        sum += tenth;
    puts(sum == 1.0DD ? "exact" : "rounded");
    return 0;
}
