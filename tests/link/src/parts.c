// Functions that are hot, cold, run once, unused, or the same as another: see test_sections_of_code.py.
#include <stdio.h>
#include <stdlib.h>

unsigned big_sum(void) __attribute__((weak));
int unused(int x);
int same_one(int x);
int same_two(int x);

int unused(int x) { return x * 77; }
__attribute__((noinline)) int same_one(int x) { return x * 3 + 5; }
__attribute__((noinline)) int same_two(int x) { return x * 3 + 5; }

__attribute__((constructor)) static void early(void) { setvbuf(stdout, NULL, _IOLBF, 0); }

__attribute__((cold, noinline)) static void complain(unsigned number) {
    fprintf(stderr, "impossible: %u\n", number);
    exit(3);
}

__attribute__((noinline)) static unsigned step(unsigned x) {
    if (x % 65536 == 77) {
        char text[32];
        snprintf(text, sizeof text, "%u", x);
        for (char *c = text; *c; c++)
            x = x * 31 + (unsigned char)*c;
        if (x == 1)
            complain(x);
    }
    return x * 1664525 + 1013904223;
}

__attribute__((noinline)) static unsigned many(unsigned rounds) {
    unsigned x = 1;
    while (rounds--)
        x = step(x);
    return x;
}

int main(void) {
    if (big_sum && big_sum() != 3000u * 2999u / 2u)
        complain(0);
    printf("%u %d %d\n", many(1000000), same_one(1), same_two(1));
    return 0;
}
