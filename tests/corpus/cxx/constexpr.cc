// Tables computed by the compiler, in .rodata, against the same computed at run time.
//# Variants: pie+O2 static+c++20
//# Output: 168 primes, the last 997
#include <array>
#include <cstdio>
template <int limit> constexpr auto sieve() {
    std::array<bool, limit> composite{};
    for (int i = 2; i < limit; i++)
        for (int j = 2 * i; j < limit; j += i)
            composite[static_cast<unsigned>(j)] = true;
    return composite;
}
static constexpr auto table = sieve<1000>();
int main() {
    int count = 0, last = 0;
    for (int n = 2; n < 1000; n++)
        if (!table[static_cast<unsigned>(n)]) {
            count++;
            last = n;
            for (int d = 2; d * d <= n; d++)
                if (n % d == 0)
                    return 1;
        }
    std::printf("%d primes, the last %d\n", count, last);
}
