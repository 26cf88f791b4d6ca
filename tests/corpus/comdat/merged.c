// Equal strings and constants of several objects may be merged; their contents stay.
//# Object: OTHER
//# Variants: pie+O2 static+O2 no-pie+O2 pie+O2+gc pie+icf
//# Output: hello world|world|3.25|wide
#include <wchar.h>
const char *text(void);
double number(double);
const wchar_t *wide(void);
#ifdef OTHER
const char *text(void) { return "hello world"; }
double number(double x) { return x * 3.25; }
const wchar_t *wide(void) { return L"wide"; }
#else
#include <stdio.h>
#include <string.h>
int main(void) {
    const char *tail = "world";
    volatile double one = 1;
    printf("%s|%s|%.2f|%ls\n", text(), tail, one * 3.25, L"wide");
    return strcmp(text(), "hello world") || wcscmp(wide(), L"wide") || number(1) != one * 3.25;
}
#endif
