// A program at fixed addresses gets copies of the library's data, large, aligned and read-only ones too.
//# Library: LIBRARY
//# Variants: no-pie no-pie+O2 no-pie+now no-pie+norelro pie
//# Output: 7 99 5 aligned same
extern int number;
extern int table[1000];
extern const int constant;
extern char strict[128];
int *address(void);
#ifdef LIBRARY
int number = 7;
int table[1000] = {[999] = 99};
const int constant = 5;
char strict[128] __attribute__((aligned(128))) = "x";
int *address(void) { return &number; }
#else
#include <stdint.h>
#include <stdio.h>
int main(void) {
    const char *how = (uintptr_t)strict % 128 ? "skew" : "aligned";
    printf("%d %d %d %s %s\n", number, table[999], constant, how,
           address() == &number ? "same" : "different");
    return 0;
}
#endif
