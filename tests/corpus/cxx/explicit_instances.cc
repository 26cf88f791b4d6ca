// Templates instantiated explicitly in a library, declared extern in the program.
//# Library: LIBRARY
//# Variants: pie no-pie+O2 pie+gc
//# Output: 6 abc
#include <string>
template <typename T> struct Box {
    T value;
    T twice() const;
};
extern template struct Box<int>;
extern template struct Box<std::string>;
#ifdef LIBRARY
template <typename T> T Box<T>::twice() const { return value + value; }
template struct Box<int>;
template struct Box<std::string>;
#else
#include <cstdio>
int main() {
    Box<int> number{3};
    Box<std::string> text{"abc"};
    std::printf("%d %s\n", number.twice(), text.twice().substr(3).c_str());
}
#endif
