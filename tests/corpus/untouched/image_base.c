// An image base off the windows, which hugealign leaves alone.
//# NoLayout: the user places the image
//# SkipLinker: mold (mold 1.10 knows --image-base, not -Ttext-segment)
//# SkipLinker: lld (lld spells it --image-base)
//# Link: -Wl,-Ttext-segment=0x1001000
//# Variants: no-pie
//# Output: at its place
//# SkipLinker: wild (wild 0.10 knows no -Ttext-segment)
#include <stdint.h>
#include <stdio.h>
int main(void) {
    puts((uintptr_t)main >> 20 == 0x10 ? "at its place" : "elsewhere");
    return 0;
}
