// An exception passes through qsort of the C library and through a function compiled as another part.
//# Variants: pie static pie+O2+gc
//# Object: MIDDLE
//# Args: -fexceptions
//# Output: from compare
#ifdef MIDDLE
extern "C" void middle(void (*function)()) { function(); }
#else
#include <cstdio>
#include <cstdlib>
extern "C" void middle(void (*)());
static int compare(const void *, const void *) { throw "from compare"; }
static void sort() {
    int values[] = {3, 1, 2};
    std::qsort(values, 3, sizeof *values, compare);
}
int main() {
    try {
        middle(sort);
    } catch (const char *text) {
        std::puts(text);
    }
}
#endif
