// The old ABI of std::string beside inline namespaces of our own.
//# Args: -D_GLIBCXX_USE_CXX11_ABI=0
//# Object: OTHER
//# Variants: pie static
//# Output: v2 of lib
#include <string>
namespace lib {
inline namespace v2 {
std::string name();
}
} // namespace lib
#ifdef OTHER
std::string lib::v2::name() { return "v2 of lib"; }
#else
#include <cstdio>
int main() { std::puts(lib::name().c_str()); }
#endif
