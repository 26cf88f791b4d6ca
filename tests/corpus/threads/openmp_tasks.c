// OpenMP tasks, sections and a critical region, nested.
//# SkipLinker: clang (the OpenMP library of clang is not installed)
//# Args: -fopenmp
//# Link: -fopenmp
//# Variants: pie+O2 no-pie
//# Output: 6765 2
#include <stdio.h>
static int fibonacci(int n) {
    int a, b;
    if (n < 2)
        return n;
    if (n < 12)
        return fibonacci(n - 1) + fibonacci(n - 2);
#pragma omp task shared(a)
    a = fibonacci(n - 1);
#pragma omp task shared(b)
    b = fibonacci(n - 2);
#pragma omp taskwait
    return a + b;
}
int main(void) {
    int result = 0, sections = 0;
#pragma omp parallel num_threads(2)
    {
#pragma omp single
        result = fibonacci(20);
#pragma omp sections
        {
#pragma omp section
#pragma omp critical
            sections++;
#pragma omp section
#pragma omp critical
            sections++;
        }
    }
    printf("%d %d\n", result, sections);
    return 0;
}
