// iostreams: a megabyte and more of the library's text when static, with locales and IFUNCs.
//# Variants: static pie+O2 static-pie no-pie static+gc+O2
//# Output: 42 0x2a 3.14 text 1,2,3
#include <iomanip>
#include <iostream>
#include <sstream>
#include <vector>
int main() {
    std::ostringstream list;
    for (int value : std::vector<int>{1, 2, 3})
        list << (value > 1 ? "," : "") << value;
    std::istringstream input("42 text");
    int number;
    std::string word;
    input >> number >> word;
    std::cout << number << " 0x" << std::hex << number << std::dec << ' ' << std::fixed
              << std::setprecision(2) << 3.14159 << ' ' << word << ' ' << list.str() << std::endl;
}
