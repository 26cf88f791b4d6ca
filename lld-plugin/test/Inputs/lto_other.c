static __attribute__((noinline)) int helper(volatile int *x) { return *x * 5; }
int other(int x) { return helper(&x) + 1; }
