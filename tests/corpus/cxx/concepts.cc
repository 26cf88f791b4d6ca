// Overloads chosen by concepts, and the comparison operator that makes the other five.
//# Args: -std=gnu++20
//# Variants: pie+O2 no-pie
//# Output: whole real other less
#include <compare>
#include <concepts>
#include <cstdio>
static const char *kind(std::integral auto) { return "whole"; }
static const char *kind(std::floating_point auto) { return "real"; }
static const char *kind(...) { return "other"; }
struct Version {
    int major, minor;
    auto operator<=>(const Version &) const = default;
};
int main() {
    int number = 1;
    std::printf("%s %s %s %s\n", kind(number), kind(2.5), kind(&number),
                Version{1, 9} < Version{2, 0} ? "less" : "not less");
}
