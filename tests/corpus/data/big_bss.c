// 100 MiB of zero data, touched at its ends.
//# Variants: pie no-pie static static-pie pie+O2+gc
//# Output: 0 1 2
#include <stdio.h>
static char zero[100 << 20];
static char more[5] = {1};
int main(void) {
    volatile char *bytes = zero;
    int sum = bytes[0] + bytes[sizeof zero - 1];
    bytes[0] = bytes[sizeof zero - 1] = more[0];
    printf("%d %d %d\n", sum, bytes[0], bytes[0] + bytes[sizeof zero - 1]);
    return 0;
}
