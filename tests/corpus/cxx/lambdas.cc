// Closures in std::function, generic and recursive lambdas, one turned into a C function pointer.
//# Variants: pie+O2 static
//# Output: 120 cba 15
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <vector>
int main() {
    std::function<int(int)> factorial = [&factorial](int n) { return n < 2 ? 1 : n * factorial(n - 1); };
    char letters[] = {'b', 'a', 'c', 0};
    std::qsort(letters, 3, 1, [](const void *a, const void *b) {
        return *static_cast<const char *>(b) - *static_cast<const char *>(a);
    });
    std::vector<int> numbers(5);
    std::iota(numbers.begin(), numbers.end(), 1);
    auto add = [](auto a, auto b) { return a + b; };
    std::printf("%d %s %d\n", factorial(5), letters, std::accumulate(numbers.begin(), numbers.end(), 0, add));
}
