// memcpy, memmove, strlen and their like, in all lengths and alignments to 300, against loops.
//# Args: -fno-builtin -D_GNU_SOURCE
//# Variants: pie+O2 static no-pie
//# Output: all agree
#include <stdio.h>
#include <string.h>
static char from[512], to[512], check[512];
int main(void) {
    for (int i = 0; i < 512; i++)
        from[i] = (char)(i % 255 + 1);
    for (int length = 0; length < 300; length += 1 + length / 40)
        for (int shift = 0; shift < 16; shift += 5) {
            memset(to, 0, sizeof to);
            memcpy(to + shift, from, (size_t)length);
            memmove(to + shift + 3, to + shift, (size_t)length);
            for (int i = 0; i < 512; i++)
                check[i] = 0;
            for (int i = 0; i < length; i++)
                check[shift + i] = from[i];
            for (int i = length; i-- > 0;)
                check[shift + 3 + i] = check[shift + i];
            if (memcmp(to, check, sizeof to) || strlen(from) < 255 || strnlen(from, 100) != 100 ||
                memchr(from, 100, 512) != from + 99 || memrchr(from, 100, 200) != from + 99)
                return 1;
        }
    puts("all agree");
    return 0;
}
