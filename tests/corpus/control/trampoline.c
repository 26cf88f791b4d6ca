// The address of a nested function: code on the stack, so the program asks for an executable one.
//# SkipLinker: clang (clang knows no nested functions)
//# SkipLinker: mold (mold gives an executable stack only for -z execstack)
//# SkipLinker: lld (lld gives an executable stack only for -z execstack)
//# Args: -Wno-trampolines
//# Variants: pie no-pie+O2 static
//# Output: 60
//# SkipLinker: wild (wild 0.10 wants -z execstack said)
#include <stdio.h>
__attribute__((noinline)) static int apply(int (*function)(int), int x) { return function(x); }
int main(int argc, char **argv) {
    int base = 10 * argc;
    int add(int x) { return x + base + (argv == NULL); }
    printf("%d\n", apply(add, 50));
    return 0;
}
