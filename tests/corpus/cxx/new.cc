// Global operator new and delete replaced by the program are used by the library too.
//# Variants: pie static no-pie+O2
//# Output: used, balanced
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
static long made, live;
void *operator new(std::size_t size) {
    made++;
    live++;
    if (void *p = std::malloc(size))
        return p;
    throw std::bad_alloc();
}
void operator delete(void *p) noexcept {
    live -= p != nullptr;
    std::free(p);
}
void operator delete(void *p, std::size_t) noexcept {
    live -= p != nullptr;
    std::free(p);
}
int main() {
    long before = live;
    std::string(1000, 'x').append(5000, 'y');
    std::printf("%s, %s\n", made ? "used" : "unused", live == before ? "balanced" : "leaking");
}
