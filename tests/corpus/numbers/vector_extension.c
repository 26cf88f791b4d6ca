// GCC's vector types: arithmetic, comparison, shuffles, subscripts; no intrinsics.
//# Variants: pie+O2 static
//# Output: 11 22 33 44 -1 0 -1 0
#include <stdio.h>
typedef int four __attribute__((vector_size(16)));
static four add(four a, four b) { return a + b * 10; }
int main(void) {
    volatile int n = 1;
    four a = {n, 2, 3, 4}, sum = add(a, a), odd = (a & 1) == 1;
    printf("%d %d %d %d %d %d %d %d\n", sum[0], sum[1], sum[2], sum[3], odd[0], odd[1], odd[2], odd[3]);
    return 0;
}
