// A strong definition in another object wins over a weak one.
//# Object: OTHER
//# Variants: pie no-pie+O2 static+gc pie+lto
//# Output: strong 2
#ifdef OTHER
const char *name(void);
const char *name(void) { return "strong"; }
int value = 2;
#else
#include <stdio.h>
__attribute__((weak)) const char *name(void) { return "weak"; }
__attribute__((weak)) int value = 1;
int main(void) {
    printf("%s %d\n", name(), value);
    return 0;
}
#endif
