// The C library's own IFUNCs, linked in statically, with calls by pointer.
//# Args: -fno-builtin
//# SkipLinker: clang19-mold static (mold 1.10 puts an IRELATIVE relocation into read-only memory, which a static program cannot bear)
//# Variants: static static-pie+O2 pie
//# Link: -lm
//# Output: 5 1 bcd 8.0 7
#include <math.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    size_t (*volatile length)(const char *) = strlen;
    char buffer[8] = "abcd";
    memmove(buffer, buffer + 1, 4);
    printf("%zu %d %s %.1f %d\n", length("12345"), strcmp("b", "a") > 0, buffer, pow(2, 3), (int)floor(7.9));
    return 0;
}
