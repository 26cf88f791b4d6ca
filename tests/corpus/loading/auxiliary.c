// The auxiliary vector: page size, entry, random bytes, the name the program was called by.
//# Variants: pie static no-pie
//# Output: 4096 entry random ./program
#include <stdio.h>
#include <sys/auxv.h>
extern char _start[];
int main(void) {
    const unsigned char *random = (const unsigned char *)getauxval(AT_RANDOM);
    int any = 0;
    for (int i = 0; random && i < 16; i++)
        any |= random[i];
    printf("%lu %s %s %s\n", getauxval(AT_PAGESZ),
           getauxval(AT_ENTRY) == (unsigned long)_start ? "entry" : "elsewhere", any ? "random" : "zero",
           (const char *)getauxval(AT_EXECFN));
    return 0;
}
