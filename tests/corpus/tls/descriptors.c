// TLS descriptors instead of __tls_get_addr.
//# Args: -mtls-dialect=gnu2
//# SkipLinker: clang14 (clang 14 knows no -mtls-dialect)
//# Library: LIBRARY
//# Variants: pie+O2 no-pie
//# Output: 6 11
#ifdef LIBRARY
__thread int exported = 5;
static __thread int hidden = 10;
int bump(void);
int bump(void) {
    exported++;
    return ++hidden;
}
#else
#include <stdio.h>
extern __thread int exported;
int bump(void);
int main(void) {
    int hidden = bump();
    printf("%d %d\n", exported, hidden);
    return 0;
}
#endif
