// Link-time optimisation through an archive, with constructors and weak symbols in it.
//# Archive: MEMBER
//# Link: libMEMBER.a
//# SkipLinker: clang lto (ar writes no index for LLVM bitcode)
//# Variants: pie+lto static+lto pie
//# Output: 7 constructed
#ifdef MEMBER
const char *state = "raw";
int member(void);
__attribute__((weak)) int member(void) { return 7; }
__attribute__((constructor)) static void up(void) { state = "constructed"; }
#else
#include <stdio.h>
extern const char *state;
int member(void);
int main(void) {
    printf("%d %s\n", member(), state);
    return 0;
}
#endif
