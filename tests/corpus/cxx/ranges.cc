// Views and pipelines of C++20.
//# SkipLinker: clang14 (clang 14 cannot compile ranges of libstdc++ 12)
//# Args: -std=gnu++20
//# Variants: pie+O2 static
//# Output: 4 16 36 64
#include <cstdio>
#include <ranges>
int main() {
    const char *separator = "";
    for (int n : std::views::iota(1, 100) | std::views::filter([](int n) { return n % 2 == 0; }) |
                     std::views::transform([](int n) { return n * n; }) | std::views::take(4)) {
        std::printf("%s%d", separator, n);
        separator = " ";
    }
    std::puts("");
}
