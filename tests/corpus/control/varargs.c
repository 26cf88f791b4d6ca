// Variadic functions with integers, doubles and structures, and arrays of variable length.
//# Args: -Wno-vla
//# Variants: pie static+O2 no-pie
//# Output: 10 3.5 xyz 15
#include <stdarg.h>
#include <stdio.h>
struct three {
    char text[4];
};
static void take(char *out, int size, ...) {
    va_list list;
    va_start(list, size);
    int number = va_arg(list, int);
    double real = va_arg(list, double);
    struct three three = va_arg(list, struct three);
    snprintf(out, (size_t)size, "%d %.1f %s", number, real, three.text);
    va_end(list);
}
static int sum(int count) {
    int values[count], total = 0;
    for (int i = 0; i < count; i++)
        values[i] = i;
    for (int i = 0; i < count; i++)
        total += values[i];
    return total;
}
int main(void) {
    char text[40];
    take(text, 40, 10, 3.5, (struct three){"xyz"});
    printf("%s %d\n", text, sum(6));
    return 0;
}
