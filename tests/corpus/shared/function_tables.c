// Tables of pointers to a library's functions, constant, in the program: relocated before they become read-only.
//# Library: LIBRARY
//# Variants: pie pie+now no-pie pie+relr pie+norelro
//# Output: 1 2 3 same
#ifdef LIBRARY
int a(void);
int b(void);
int c(void);
int (*address_of_b(void))(void);
int a(void) { return 1; }
int b(void) { return 2; }
int c(void) { return 3; }
int (*address_of_b(void))(void) { return b; }
#else
#include <stdio.h>
int a(void);
int b(void);
int c(void);
int (*address_of_b(void))(void);
static int (*const table[])(void) = {a, b, c};
int main(void) {
    for (int i = 0; i < 3; i++)
        printf("%d ", table[i]());
    puts(table[1] == address_of_b() ? "same" : "different");
    return 0;
}
#endif
