// _Generic chooses by type, at compile time, over all the kinds of number and pointer.
//# Variants: pie+c11 no-pie+c11+O2
//# Output: int double text pointer long
#include <stdio.h>
#define name(x)                                                                                              \
    _Generic((x), int : "int", double : "double", char * : "text", long : "long", default : "pointer")
int main(void) {
    char text[] = "x";
    int i = 0;
    printf("%s %s %s %s %s\n", name(i), name(i * 1.0), name(text), name(&i), name(i + 1L));
    return 0;
}
