// Function multiversioning of C++.
//# Variants: pie no-pie+O2 static
//# Output: ok
#include <cstdio>
__attribute__((target("default"))) int version() { return 1; }
__attribute__((target("sse4.2"))) int version() { return 2; }
__attribute__((target("avx2"))) int version() { return 3; }
int main() {
    __builtin_cpu_init();
    int expected = __builtin_cpu_supports("avx2") ? 3 : __builtin_cpu_supports("sse4.2") ? 2 : 1;
    std::puts(version() == expected ? "ok" : "wrong");
}
