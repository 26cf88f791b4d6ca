// Strings of all widths, with zeros inside, and equal tails.
//# Args: -std=gnu11
//# Variants: pie+O2 static no-pie+gc
//# Output: 4 5 6 7 tail
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>
static const uint16_t *wide16 = (const uint16_t *)u"sixtee";
int main(void) {
    const char zeros[] = "a\0b\0c";
    int length = 0;
    while (wide16[length])
        length++;
    printf("%zu %zu %d %zu %s\n", strlen("four"), sizeof zeros - 1, length, wcslen(L"seventh"),
           &"a long tail"[7]);
    return 0;
}
