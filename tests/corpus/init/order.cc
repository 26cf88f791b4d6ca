// Static objects of one file in their order, a static of a function on first use, init_priority before both.
//# Variants: static pie no-pie+O2 pie+gc
//# Output: +early +first +second main +local -local -second -first -early
#include <cstdio>
struct Noisy {
    const char *name;
    explicit Noisy(const char *n) : name(n) { std::printf("+%s ", name); }
    ~Noisy() { std::printf("-%s%c", name, name[0] == 'e' ? '\n' : ' '); }
};
static Noisy first("first");
static Noisy second("second");
static Noisy early __attribute__((init_priority(200))) = Noisy("early");
static void use() { static Noisy local("local"); }
int main() {
    std::printf("main ");
    use();
    use();
}
