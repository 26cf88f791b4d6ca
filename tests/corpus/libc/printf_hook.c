// A conversion of the program's own for printf, which calls back into it.
//# Args: -D_GNU_SOURCE -Wno-format -Wno-format-extra-args -Wno-format-invalid-specifier
//# Variants: pie static
//# Output: <3,4> and <5,6>
#include <printf.h>
#include <stdio.h>
struct point {
    int x, y;
};
static int print(FILE *stream, const struct printf_info *info, const void *const *arguments) {
    const struct point *p = *(const struct point *const *)arguments[0];
    (void)info;
    return fprintf(stream, "<%d,%d>", p->x, p->y);
}
static int size(const struct printf_info *info, size_t n, int *types, int *sizes) {
    (void)info;
    if (n > 0) {
        types[0] = PA_POINTER;
        sizes[0] = sizeof(void *);
    }
    return 1;
}
int main(void) {
    struct point a = {3, 4}, b = {5, 6};
    register_printf_specifier('P', print, size);
    printf("%P and %P\n", (void *)&a, (void *)&b);
    return 0;
}
