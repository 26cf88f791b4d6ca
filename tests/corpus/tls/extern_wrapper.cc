// A thread_local with dynamic initialisation is reached from another object through its wrapper function.
//# Object: OTHER
//# Variants: pie no-pie+O2 static pie+gc
//# Output: 12
#ifdef OTHER
static int compute() { return 12; }
extern thread_local int computed;
thread_local int computed = compute();
#else
#include <cstdio>
extern thread_local int computed;
int main() { std::printf("%d\n", computed); }
#endif
