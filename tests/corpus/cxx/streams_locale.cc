// Streams with a facet of the program's own: numbers with dots between the thousands.
//# Variants: pie static
//# Output: 1.234.567 ff true
#include <iomanip>
#include <iostream>
#include <locale>
#include <string>
struct Dots : std::numpunct<char> {
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
};
int main() {
    std::cout.imbue(std::locale(std::cout.getloc(), new Dots));
    std::cout << 1234567 << ' ' << std::hex << 255 << ' ' << std::boolalpha << true << std::endl;
}
