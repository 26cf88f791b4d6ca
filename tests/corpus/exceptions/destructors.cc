// Destructors run in the reverse order of construction, also those of members and array elements.
//# Variants: static pie+O2 pie+gc
//# Output: ~5 ~4 ~3 ~2 ~1 caught 6
#include <cstdio>
static int count;
struct Noisy {
    int id;
    Noisy() : id(++count) {
        if (id == 6)
            throw id;
    }
    ~Noisy() { std::printf("~%d ", id); }
};
struct Pair {
    Noisy first, second;
};
static void build() {
    Noisy one;
    Pair pair;
    Noisy rest[4];
}
int main() {
    try {
        build();
    } catch (int id) {
        std::printf("caught %d\n", id);
    }
}
