// A switch into the middle of a loop, and cases with ranges.
//# Variants: pie+O2 static+O3
//# Output: abcdefghijk low high
#include <stdio.h>
static void copy(char *to, const char *from, int count) {
    int rounds = (count + 3) / 4;
    switch (count % 4) {
    case 0:
        do {
            *to++ = *from++;
            __attribute__((fallthrough));
        case 3:
            *to++ = *from++;
            __attribute__((fallthrough));
        case 2:
            *to++ = *from++;
            __attribute__((fallthrough));
        case 1:
            *to++ = *from++;
        } while (--rounds > 0);
    }
}
static const char *range(int n) {
    switch (n) {
    case -1000 ... 99:
        return "low";
    case 100 ... 1000:
        return "high";
    default:
        return "out";
    }
}
int main(void) {
    char text[12] = "";
    copy(text, "abcdefghijk", 11);
    printf("%s %s %s\n", text, range(5), range(100));
    return 0;
}
