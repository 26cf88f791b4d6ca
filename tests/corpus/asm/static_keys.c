// asm goto with a table of jumps that are patched, as static keys are.
//# Variants: pie+O2 no-pie+O2 static
//# Output: off 1
#include <stdint.h>
#include <stdio.h>
struct jump {
    int32_t code, target;
};
extern const struct jump __start_jumps[], __stop_jumps[];
__attribute__((always_inline)) static inline int enabled(void) {
    __asm__ goto(
        "1: .byte 0x0f, 0x1f, 0x44, 0, 0\n.pushsection jumps, \"a\"\n.long 1b - ., %l[yes] - .\n.popsection"
        :
        :
        :
        : yes);
    return 0;
yes:
    return 1;
}
int main(void) {
    const char *state = enabled() ? "on" : "off";
    const unsigned char *code =
        (const unsigned char *)((uintptr_t)__start_jumps + (uintptr_t)__start_jumps->code);
    printf("%s %d\n", state, (int)(__stop_jumps - __start_jumps) * (code[0] == 0x0f && code[1] == 0x1f));
    return 0;
}
