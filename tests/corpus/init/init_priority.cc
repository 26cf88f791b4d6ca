// Objects of two sources with priorities: by number, not by source; destroyed in reverse.
//# Object: OTHER
//# Variants: pie+O2 static no-pie
//# Output: +1 +2 +3 +4 main -4 -3 -2 -1
#include <cstdio>
struct Noisy {
    int number;
    explicit Noisy(int n) : number(n) { std::printf("+%d ", n); }
    ~Noisy() { std::printf("-%d%c", number, number == 1 ? '\n' : ' '); }
};
#ifdef OTHER
__attribute__((init_priority(400))) static Noisy four(4);
__attribute__((init_priority(200))) static Noisy two(2);
#else
__attribute__((init_priority(300))) static Noisy three(3);
__attribute__((init_priority(150))) static Noisy one(1);
int main() { std::printf("main "); }
#endif
