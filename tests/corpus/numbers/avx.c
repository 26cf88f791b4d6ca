// Wide vectors where the processor has them, by a target attribute; a plain loop elsewhere: the same sum.
//# Variants: pie+O2 static
//# Output: 499500
#include <immintrin.h>
#include <stdio.h>
static int numbers[1000];
__attribute__((target("avx2"), noinline)) static int wide(void) {
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < 1000; i += 8)
        sum = _mm256_add_epi32(sum, _mm256_loadu_si256((const __m256i *)(const void *)(numbers + i)));
    int parts[8], total = 0;
    _mm256_storeu_si256((__m256i *)(void *)parts, sum);
    for (int i = 0; i < 8; i++)
        total += parts[i];
    return total;
}
__attribute__((noinline)) static int narrow(void) {
    int total = 0;
    for (int i = 0; i < 1000; i++)
        total += numbers[i];
    return total;
}
int main(void) {
    for (int i = 0; i < 1000; i++)
        numbers[i] = i;
    printf("%d\n", __builtin_cpu_supports("avx2") ? wide() : narrow());
    return 0;
}
