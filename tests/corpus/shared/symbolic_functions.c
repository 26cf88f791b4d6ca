// -Bsymbolic-functions does it for functions only.
//# Library: LIBRARY -Wl,-Bsymbolic-functions
//# Variants: pie no-pie
//# Output: library 1
const char *name(void);
const char *ask(void);
extern int variable;
int *where(void);
#ifdef LIBRARY
int variable = 2;
const char *name(void) { return "library"; }
const char *ask(void) { return name(); }
int *where(void) { return &variable; }
#else
#include <stdio.h>
int variable = 1;
const char *name(void) { return "program"; }
int main(void) {
    printf("%s %d\n", ask(), *where());
    return name()[0] != 'p';
}
#endif
