// OpenMP: outlined functions, thread-private data, reductions.
//# SkipLinker: clang (the OpenMP library of clang is not installed)
//# Args: -fopenmp
//# Link: -fopenmp
//# Variants: pie no-pie+O2 static
//# Output: 499500
#include <stdio.h>
static int mine = 1;
#pragma omp threadprivate(mine)
int main(void) {
    long sum = 0;
#pragma omp parallel for num_threads(3) reduction(+ : sum) copyin(mine)
    for (int i = 0; i < 1000; i++)
        sum += i * mine;
    printf("%ld\n", sum);
    return 0;
}
