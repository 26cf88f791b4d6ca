// Functions in sections of their own names unwind like those in .text.
//# Variants: pie no-pie+O2 static
//# Output: through three sections
#include <cstdio>
#define IN(name) __attribute__((section(name), noinline))
IN("text_of_mine") static void low(int value) {
    if (value)
        throw "through three sections";
}
IN(".text.special") static void middle(int value) {
    low(value);
    std::puts("not reached");
}
IN(".zz_last") static void high(int value) {
    middle(value);
    std::puts("not reached");
}
int main(int argc, char **) {
    try {
        high(argc);
    } catch (const char *text) {
        std::puts(text);
    }
}
