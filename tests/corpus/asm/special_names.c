// Names of sections and symbols that are special to some tools, and a symbol like ours.
//# Variants: pie no-pie+gc static
//# Output: 1 2 3 4
#include <stdio.h>
#define IN(name) __attribute__((section(name), noinline))
IN(".text.unlikely.one") static int one(void) { return 1; }
IN(".text.hot.two") static int two(void) { return 2; }
IN("~tilde") static int three(void) { return 3; }
IN(".hugealign") static int four(void) { return 4; }
int main(void) {
    printf("%d %d %d %d\n", one(), two(), three(), four());
    return 0;
}
