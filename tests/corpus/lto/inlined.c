// Functions of another file are inlined or vanish; a symbol kept for assembly stays.
//# Object: OTHER
//# Variants: pie+lto static+lto no-pie+lto pie+lto+gc pie+O2
//# Output: 12 9
#ifdef OTHER
int square(int x);
int unused(void);
int square(int x) { return x * x; }
int unused(void) { return 1; }
#else
#include <stdio.h>
int square(int x);
__attribute__((used, visibility("hidden"))) int kept(void) { return 9; }
__asm__(".text\nby_assembly: jmp kept");
int by_assembly(void) __attribute__((visibility("hidden")));
int main(void) {
    printf("%d %d\n", square(3) + 3, by_assembly());
    return 0;
}
#endif
