// An alias of an alias, weak ones of data, and one that a stronger definition replaces.
//# Object: OTHER
//# Variants: pie+O2 static no-pie
//# Output: 1 1 stronger 9
#ifdef OTHER
const char *word(void);
const char *word(void) { return "stronger"; }
#else
#include <stdio.h>
int base(void);
int base(void) { return 1; }
int alias(void) __attribute__((alias("base")));
int again(void) __attribute__((weak, alias("alias")));
static const char *weaker(void) { return "weaker"; }
const char *word(void) __attribute__((weak, alias("weaker")));
static int numbers[2] = {7, 9};
extern int view[2] __attribute__((alias("numbers")));
int main(void) {
    printf("%d %d %s %d\n", alias(), again(), word(), view[1]);
    return 0;
}
#endif
