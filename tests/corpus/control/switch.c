// A large switch becomes a jump table.
//# Variants: pie+O2 no-pie+O2 static+O2 pie+O0
//# Output: 1683
#include <stdio.h>
#define CASE(n)                                                                                              \
    case (n):                                                                                                \
        return x * (n) + ((n) ^ 5);
#define CASES(n) CASE(n) CASE(n + 1) CASE(n + 2) CASE(n + 3) CASE(n + 4) CASE(n + 5) CASE(n + 6) CASE(n + 7)
__attribute__((noinline)) static int choose(int n, int x) {
    switch (n) { CASES(0) CASES(8) CASES(16) CASES(24) CASES(32) default : return -1; }
}
int main(void) {
    int sum = 0;
    for (int n = -1; n < 42; n++)
        sum += choose(n, 1) + (n == 41 ? 126 : 0);
    printf("%d\n", sum);
    return 0;
}
