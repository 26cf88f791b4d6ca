/* A program whose functions are hot, warm and never run, with two locals of one name; for samples of profiles. */
#include <stdlib.h>

unsigned work(unsigned rounds);
unsigned other(unsigned rounds);

__attribute__((noinline)) static unsigned helper(unsigned value) { return value * 2654435761u + 1; }

__attribute__((noinline)) unsigned odd(unsigned value) { return value ^ value >> 3; }

__attribute__((noinline)) unsigned never(unsigned value) { return value / 3; }

__attribute__((noinline)) static unsigned hot(unsigned rounds) {
    unsigned sum = rounds;
    for (unsigned round = 0; round < rounds; round++)
        sum = helper(sum) + (round % 64 ? 0 : odd(sum));
    return sum;
}

int main(int argc, char **argv) {
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
    if (argc > 9)
        return (int)never(rounds);
    return (hot(rounds) + work(rounds) + other(rounds)) == 42;
}
