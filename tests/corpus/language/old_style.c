// Functions without a prototype, common variables and implicit tentative definitions of old C.
//# Args: -fcommon -Wno-old-style-definition -Wno-deprecated-non-prototype -Wno-unknown-warning-option
//# Object: OTHER
//# Variants: no-pie pie
//# Output: 12 common
#ifdef OTHER
int shared;
char *text;
void fill(void);
void fill(void) {
    shared += 5;
    text = "common";
}
#else
#include <stdio.h>
int shared;
char *text;
void fill(void);
static int add(a, b)
int a, b;
{ return a + b; }
int main(void) {
    shared = add(3, 4);
    fill();
    printf("%d %s\n", shared, text);
    return 0;
}
#endif
