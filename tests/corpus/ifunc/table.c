// Addresses of IFUNCs in initialised data need relocations of their own.
//# Args: -Wno-unused-function
//# SkipLinker: mold static (mold 1.10 puts an IRELATIVE relocation into read-only memory, which a static program cannot bear)
//# Variants: no-pie static static-pie pie pie+relr
//# Output: 1 2 1
#include <stdio.h>
static int one(void) { return 1; }
static int two(void) { return 2; }
static int (*resolve_one(void))(void) { return one; }
static int (*resolve_two(void))(void) { return two; }
static int first(void) __attribute__((ifunc("resolve_one")));
int second(void) __attribute__((ifunc("resolve_two"), visibility("hidden")));
static int (*const table[])(void) = {first, second, first};
int main(void) {
    int (*const *volatile entry)(void) = table;
    printf("%d %d %d\n", entry[0](), entry[1](), entry[2]());
    return 0;
}
