// Wide, UTF-8, UTF-16 and UTF-32 literals, and the conversions between them.
//# Variants: pie+c11 static+c11
//# Output: 6 4 4 4: 64 20ac
#include <stdio.h>
#include <uchar.h>
#include <wchar.h>
int main(void) {
    const char narrow[] = u8"d\u20acf";
    const char16_t sixteen[] = u"d\u20acf";
    const char32_t thirty_two[] = U"d\u20acf";
    const wchar_t wide[] = L"d\u20acf";
    printf("%zu %zu %zu %zu: %x %x\n", sizeof narrow, sizeof sixteen / 2, sizeof thirty_two / 4,
           sizeof wide / sizeof *wide, (unsigned)sixteen[0], (unsigned)thirty_two[1]);
    return 0;
}
