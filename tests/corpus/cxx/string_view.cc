// Views of text, literals of one's own, and conversion without locale.
//# Variants: pie+O2 static+c++20
//# Output: 3 words, 42 2.5 kilometres 5000
#include <charconv>
#include <cstdio>
#include <string_view>
constexpr long operator""_km(unsigned long long n) { return static_cast<long>(n) * 1000; }
int main() {
    std::string_view text = "one two three";
    int words = 1, number = 0;
    for (char c : text)
        words += c == ' ';
    std::string_view digits = "42";
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    char buffer[32];
    auto end = std::to_chars(buffer, buffer + 31, 2.5);
    *end.ptr = 0;
    std::printf("%d words, %d %s kilometres %ld\n", words, number, buffer, 5_km);
}
