// Memory of the caller's frame, with the stack protector on.
//# Args: -fstack-protector-all
//# Variants: pie+O2 static
//# Output: fedcba
#include <alloca.h>
#include <stdio.h>
#include <string.h>
__attribute__((noinline)) static void reversed(const char *text, char *out) {
    size_t length = strlen(text);
    char *copy = alloca(length + 1);
    for (size_t i = 0; i < length; i++)
        copy[i] = text[length - 1 - i];
    copy[length] = 0;
    memcpy(out, copy, length + 1);
}
int main(void) {
    char out[16];
    reversed("abcdef", out);
    puts(out);
    return 0;
}
