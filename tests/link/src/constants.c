/* 5 MiB of constants that are used, 1.5 MiB of RELRO, and sections that no linker script names. */
#include <stdio.h>

unsigned big_sum(void);

__attribute__((used)) static const char table[5 << 20] = {1, 2, 3};
__attribute__((used)) static const char *const relocated[1 << 17] = {[0 ...(1 << 17) - 1] = table};
__attribute__((used, section("own_name"))) static const int named[64] = {7};
__attribute__((used, section(".other"))) static const int other[64] = {8};

int main(int argc, char **argv) {
    const volatile char *at = table;
    unsigned sum = 0;
    (void)argv;
    for (long i = 0; i < (long)sizeof table; i += 4096)
        sum += (unsigned)at[i];
    sum += (unsigned)*relocated[argc] + (unsigned)named[0] + (unsigned)other[0];
    if (argc > 1) {
        puts("ready");
        fflush(stdout);
        getchar();
    }
    return sum != 1 + 1 + 7 + 8 || big_sum() != 3000u * 2999u / 2u;
}
