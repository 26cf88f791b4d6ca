// operator new and delete replaced for the whole program, aligned and sized ones too.
//# Args: -Wno-mismatched-new-delete
//# Variants: pie+O2 no-pie
//# Output: balanced, aligned 1
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>
static int balance;
void *operator new(std::size_t size) {
    balance++;
    void *memory = std::malloc(size);
    if (!memory)
        throw std::bad_alloc();
    return memory;
}
void operator delete(void *memory) noexcept {
    balance -= memory != nullptr;
    std::free(memory);
}
void operator delete(void *memory, std::size_t) noexcept { operator delete(memory); }
void *operator new(std::size_t size, std::align_val_t align) {
    balance++;
    return std::aligned_alloc(static_cast<std::size_t>(align), size);
}
void operator delete(void *memory, std::align_val_t) noexcept { operator delete(memory); }
void operator delete(void *memory, std::size_t, std::align_val_t) noexcept { operator delete(memory); }
struct alignas(256) Wide {
    char data[256];
};
int main() {
    const int before = balance;
    { std::vector<std::string> texts(50, std::string(100, 'x')); }
    Wide *wide = new Wide;
    const bool aligned = reinterpret_cast<unsigned long>(wide) % 256 == 0;
    delete wide;
    std::printf("%s, aligned %d\n", balance == before ? "balanced" : "lost", aligned);
}
