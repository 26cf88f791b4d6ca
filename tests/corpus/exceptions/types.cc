// Every kind of thrown object finds its handler.
//# Variants: pie no-pie+O2 static static-pie+O2 pie+gc+O2 pie+lto pie+c++11 pie+c++20
//# Output: int 7
//# Output: derived
//# Output: string text
//# Output: pointer
//# Output: anything
#include <cstdio>
#include <string>
struct Base {
    virtual ~Base() = default;
};
struct Derived : Base {};
static void raise(int kind) {
    static int target;
    if (kind == 0)
        throw 7;
    if (kind == 1)
        throw Derived();
    if (kind == 2)
        throw std::string("text");
    if (kind == 3)
        throw &target;
    throw 1.5;
}
int main() {
    for (int kind = 0; kind < 5; kind++) {
        try {
            raise(kind);
        } catch (int value) {
            std::printf("int %d\n", value);
        } catch (const Base &base) {
            std::puts(dynamic_cast<const Derived *>(&base) ? "derived" : "base");
        } catch (const std::string &text) {
            std::printf("string %s\n", text.c_str());
        } catch (const int *) {
            std::puts("pointer");
        } catch (...) {
            std::puts("anything");
        }
    }
}
