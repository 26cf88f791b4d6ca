__attribute__((noinline)) static unsigned helper(unsigned value) { return value * 40503u ^ value >> 7; }

__attribute__((noinline)) unsigned work(unsigned rounds) {
    unsigned sum = 0;
    for (unsigned round = 0; round < rounds; round += 4)
        sum += helper(sum + round);
    return sum;
}

__attribute__((noinline)) unsigned other(unsigned rounds) { return rounds > 5 ? work(rounds / 8) : 1; }
