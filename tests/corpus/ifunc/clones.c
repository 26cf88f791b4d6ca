// The compiler makes the resolver: target_clones.
//# Variants: pie+O2 static+O2 no-pie
//# Output: 499500
#include <stdio.h>
int sum(const int *values, int count);
__attribute__((target_clones("avx2", "default"))) int sum(const int *values, int count) {
    int total = 0;
    for (int i = 0; i < count; i++)
        total += values[i];
    return total;
}
int main(void) {
    int values[1000];
    for (int i = 0; i < 1000; i++)
        values[i] = i;
    printf("%d\n", sum(values, 1000));
    return 0;
}
