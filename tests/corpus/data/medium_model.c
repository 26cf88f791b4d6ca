// The medium model puts large data into sections of its own.
//# Args: -mcmodel=medium
//# Variants: no-pie pie static
//# Output: 4 5
#include <stdio.h>
static char large_zero[80 << 20];
static int large_data[100000] = {[99999] = 5};
static int small = 4;
int main(void) {
    large_zero[79 << 20] = (char)small;
    printf("%d %d\n", large_zero[79 << 20], large_data[99999]);
    return 0;
}
