// The stack protector sees an overrun.
//# Args: -fstack-protector-all -U_FORTIFY_SOURCE -O0
//# Variants: pie static
//# Expect: -6
#include <string.h>
#include <sys/resource.h>
__attribute__((noinline)) static void overrun(volatile char *out, int size) {
    for (int i = 0; i < size; i++)
        out[i] = 'x';
}
__attribute__((noinline)) static int victim(int size) {
    char small[8];
    overrun(small, size);
    return small[0];
}
int main(int argc, char **argv) {
    const struct rlimit none = {0, 0};
    (void)argv;
    setrlimit(RLIMIT_CORE, &none);
    return victim(argc * 24);
}
