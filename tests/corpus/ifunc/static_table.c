// IFUNCs whose addresses stand in a constant table, of a static and a position-independent program.
//# SkipLinker: mold static (mold 1.10 makes static programs with such a table crash)
//# Variants: pie static no-pie static-pie
//# Output: 5 6
#include <stdio.h>
static int five(void) { return 5; }
static int six(void) { return 6; }
__attribute__((used)) static int (*pick_five(void))(void) { return five; }
__attribute__((used)) static int (*pick_six(void))(void) { return six; }
__attribute__((ifunc("pick_five"))) int a(void);
__attribute__((ifunc("pick_six"))) int b(void);
static int (*const table[])(void) = {a, b};
int main(void) {
    int (*const volatile *t)(void) = table;
    printf("%d %d\n", t[0](), t[1]());
    return 0;
}
