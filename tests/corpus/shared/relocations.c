// Thousands of relative relocations in a library, in data and in constant tables, some at odd addresses.
//# Library: LIBRARY
//# Variants: pie pie+relr no-pie pie+norelro
//# Output: 4000 abcd
int count(void);
const char *at(int index);
#ifdef LIBRARY
#define T10(x) x, x, x, x, x, x, x, x, x, x
#define T1000(x) T10(T10(T10(x)))
static const char a[] = "a", b[] = "b", c[] = "c", d[] = "d";
static const char *const table[] = {T1000(a), T1000(b), T1000(c), T1000(d)};
static struct __attribute__((packed)) {
    char pad;
    const char *text;
} odd[] = {{1, a}, {2, b}, {3, c}, {4, d}};
int count(void) { return (int)(sizeof table / sizeof *table); }
const char *at(int index) { return index < 0 ? odd[~index].text : table[index]; }
#else
#include <stdio.h>
#include <string.h>
int main(void) {
    printf("%d %s%s%s%s\n", count(), at(0), at(1999), at(2000), at(3999));
    return strcmp(at(-1), "a") || strcmp(at(-4), "d");
}
#endif
