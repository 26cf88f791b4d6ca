// --wrap and --defsym.
//# Object: OTHER
//# Link: -Wl,--wrap=measure -Wl,--defsym=alias=original
//# Variants: pie static no-pie+O2
//# Output: 105 3
int measure(int x);
#ifdef OTHER
int measure(int x) { return x; }
#else
#include <stdio.h>
int __real_measure(int x);
int __wrap_measure(int x);
int original(void);
int alias(void);
int __wrap_measure(int x) { return __real_measure(x) + 100; }
int original(void) { return 3; }
int main(void) {
    printf("%d %d\n", measure(5), alias());
    return 0;
}
#endif
