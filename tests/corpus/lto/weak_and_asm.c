// What link-time optimisation must not lose: a function that only assembly calls, a weak one, a constructor.
//# Object: OTHER
//# Variants: pie+lto static+lto pie+O2
//# Output: 5 constructed
#ifdef OTHER
__attribute__((used)) int called_by_assembly(void);
int called_by_assembly(void) { return 5; }
extern const char *state;
__attribute__((constructor)) static void construct(void) { state = "constructed"; }
#else
#include <stdio.h>
const char *state = "raw";
int through(void);
__asm__(".text\n.globl through\n.type through, @function\nthrough: sub $8, %rsp\n call called_by_assembly\n"
        " add $8, %rsp\n ret\n.size through, . - through\n");
int main(void) {
    printf("%d %s\n", through(), state);
    return 0;
}
#endif
