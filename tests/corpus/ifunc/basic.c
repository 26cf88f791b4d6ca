// The resolver picks an implementation; direct calls and calls by pointer agree.
//# Args: -Wno-unused-function
//# SkipLinker: clang19-mold static (mold 1.10 puts an IRELATIVE relocation into read-only memory, which a static program cannot bear)
//# Variants: pie no-pie+O2 static static-pie pie+now pie+lazy pie+gc
//# Output: fast fast same
#include <stdio.h>
static const char *fast(void) { return "fast"; }
static const char *(*resolve(void))(void) { return fast; }
const char *speed(void) __attribute__((ifunc("resolve")));
int main(void) {
    const char *(*volatile pointer)(void) = speed;
    const char *(*volatile again)(void) = speed;
    printf("%s %s %s\n", speed(), pointer(), pointer == again ? "same" : "different");
    return 0;
}
