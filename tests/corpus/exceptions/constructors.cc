// A constructor that throws half-way: what was made is unmade, members, elements of an array and the memory.
//# Variants: pie+O2 static
//# Output: +1 +2 +3 -3 -2 -1 | array 2 of 5 freed
#include <cstdio>
#include <memory>
#include <new>
static int made, freed;
struct Part {
    int number;
    explicit Part(int n) : number(n) { std::printf("+%d ", n); }
    ~Part() { std::printf("-%d ", number); }
};
struct Whole {
    Part first{1}, second{2};
    Whole() {
        Part third(3);
        throw 1;
    }
};
struct Element {
    Element() {
        if (made == 2)
            throw 2;
        made++;
    }
    ~Element() { freed++; }
};
int main() {
    try {
        Whole whole;
    } catch (int) {
    }
    try {
        std::unique_ptr<Element[]> array(new Element[5]);
    } catch (int) {
        std::printf("| array %d of 5 %s\n", made, freed == made ? "freed" : "lost");
    }
}
