// Variadic templates, folds, tuples and structured bindings: many small functions in COMDAT groups.
//# Variants: pie+O0 pie+gc static+O2
//# Output: 1 x 2.5 | 10 | 3 b
#include <cstdio>
#include <tuple>
#include <utility>
static void show(int n) { std::printf("%d ", n); }
static void show(char c) { std::printf("%c ", c); }
static void show(double d) { std::printf("%.1f ", d); }
template <typename... Parts> void all(Parts... parts) { (show(parts), ...); }
template <typename... Parts> auto sum(Parts... parts) { return (parts + ...); }
template <int... numbers> int sequence(std::integer_sequence<int, numbers...>) { return (numbers + ... + 0); }
int main() {
    all(1, 'x', 2.5);
    std::printf("| %d ", sum(1, 2, 7) + sequence(std::make_integer_sequence<int, 1>()));
    auto [number, letter] = std::tuple(3, 'b');
    std::printf("| %d %c\n", number, letter);
}
