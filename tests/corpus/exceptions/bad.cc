// The exceptions that the language itself throws.
//# Args: -Wno-unused-value -Wno-potentially-evaluated-expression -Wno-unknown-warning-option -Wno-alloc-size-larger-than
//# Variants: pie static no-pie+gc
//# Output: bad_cast bad_typeid bad_array bad_access out_of_range
#include <cstdio>
#include <stdexcept>
#include <typeinfo>
#include <new>
#include <variant>
#include <vector>
struct Base {
    virtual ~Base() = default;
};
struct Other : Base {};
template <typename Error, typename Action> void expect(const char *name, Action action) {
    try {
        action();
    } catch (const Error &) {
        std::printf("%s", name);
    }
}
int main() {
    Base base;
    Base *nothing = nullptr;
    volatile long minus = -1;
    std::variant<int, long> variant = 1;
    std::vector<int> empty;
    expect<std::bad_cast>("bad_cast ", [&] { (void)dynamic_cast<Other &>(base); });
    expect<std::bad_typeid>("bad_typeid ", [&] { (void)typeid(*nothing).name(); });
    expect<std::bad_alloc>("bad_array ", [&] { delete[] new char[minus]; });
    expect<std::bad_variant_access>("bad_access ", [&] { (void)std::get<long>(variant); });
    expect<std::out_of_range>("out_of_range\n", [&] { (void)empty.at(3); });
}
