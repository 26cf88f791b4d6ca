// Arrays of a length known at run time, also of two dimensions and as parameters; the stack comes back.
//# Args: -Wno-vla
//# Variants: pie+O2 static
//# Output: 1240 81
#include <stdio.h>
static long trace(int n, long matrix[n][n]) {
    long sum = 0;
    for (int i = 0; i < n; i++)
        sum += matrix[i][i];
    return sum;
}
static long squares(int n) {
    long matrix[n][n];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            matrix[i][j] = (long)i * j;
    return trace(n, matrix);
}
int main(void) {
    volatile int n = 16;
    long sum = 0;
    for (int round = 0; round < 1000; round++)
        sum = squares(n);
    char text[n * 5 + 1];
    printf("%ld %zu\n", sum, sizeof text);
    return 0;
}
