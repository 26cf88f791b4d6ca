// A stream buffer and a manipulator of the program's own.
//# Variants: pie+O2 no-pie
//# Output: HELLO <X>
#include <cctype>
#include <cstdio>
#include <ostream>
#include <streambuf>
struct Upper : std::streambuf {
    int overflow(int c) override { return std::putchar(std::toupper(c)); }
};
static std::ostream &bracket(std::ostream &out) { return out << "<x>"; }
int main() {
    Upper buffer;
    std::ostream out(&buffer);
    out << "hello " << bracket << '\n';
}
