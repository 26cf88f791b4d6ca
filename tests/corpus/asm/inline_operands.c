// Inline assembly with names, clobbers, tied and memory operands, and outputs in flags.
//# Variants: pie+O2 no-pie+O0 static
//# Output: 12 1 0 hello
#include <stdio.h>
#include <string.h>
int main(void) {
    int a = 5, b = 7, sum, less, carry;
    char from[] = "hello", to[8] = "";
    const void *source = from;
    void *target = to;
    unsigned long count = sizeof from;
    __asm__("lea (%q[a], %q[b]), %k[sum]" : [sum] "=r"(sum) : [a] "r"((long)a), [b] "r"((long)b));
    __asm__("cmp %2, %1" : "=@ccl"(less) : "r"(a), "r"(b));
    __asm__("bt $1, %1" : "=@ccc"(carry) : "r"(a));
    __asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
    printf("%d %d %d %s\n", sum, less, carry, to);
    return strcmp(from, to);
}
