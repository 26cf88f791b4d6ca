// Thread-local variables of another object of the program, and of a library by the initial-exec model.
//# Object: OTHER
//# Library: LIBRARY
//# Variants: pie no-pie+O2 pie+now pie+noplt
//# Output: 1 2
#ifdef OTHER
__thread int other = 1;
#elif defined LIBRARY
__thread int library __attribute__((tls_model("initial-exec"))) = 2;
#else
#include <stdio.h>
extern __thread int other, library;
int main(void) {
    printf("%d %d\n", other, library);
    return 0;
}
#endif
