// -Bsymbolic binds the library's calls and variables to its own definitions.
//# Library: LIBRARY -Wl,-Bsymbolic
//# Variants: pie pie+now
//# Output: program library
const char *name(void);
const char *ask(void);
#ifdef LIBRARY
const char *name(void) { return "library"; }
const char *ask(void) { return name(); }
#else
#include <stdio.h>
const char *name(void) { return "program"; }
int main(void) {
    printf("%s %s\n", name(), ask());
    return 0;
}
#endif
