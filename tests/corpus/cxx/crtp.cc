// Static polymorphism, policies and tag dispatch; every call inlined away or not, by variant.
//# Variants: pie+O0 pie+O3 no-pie
//# Output: woof x2 meow x3
#include <cstdio>
template <typename Animal> struct Speaker {
    void speak(int times) const { std::printf("%s x%d", static_cast<const Animal *>(this)->sound(), times); }
};
struct Dog : Speaker<Dog> {
    static const char *sound() { return "woof"; }
};
struct Cat : Speaker<Cat> {
    static const char *sound() { return "meow"; }
};
int main() {
    Dog().speak(2);
    std::printf(" ");
    Cat().speak(3);
    std::puts("");
}
