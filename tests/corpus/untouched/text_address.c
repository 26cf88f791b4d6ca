// -Ttext: the user places the text, which hugealign leaves alone.
//# NoLayout: the user places the text
//# Link: -Wl,-Ttext=0x1234000
//# Variants: no-pie static
//# Output: at its place
#include <stdint.h>
#include <stdio.h>
int main(void) {
    puts((uintptr_t)main >> 20 == 0x12 ? "at its place" : "elsewhere");
    return 0;
}
