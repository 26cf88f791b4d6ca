// 128-bit integers: multiply, divide, shift, in arguments and results.
//# Variants: pie+O2 static no-pie
//# Output: 30414093201713378043612608166064768844377641568960512000000000000
#include <stdio.h>
typedef unsigned __int128 wide;
struct pair {
    wide high, low;
};
__attribute__((noinline)) static struct pair times(struct pair p, unsigned factor) {
    const wide base = (wide)10000000000000000000u * 10000000000000u;
    wide low = p.low * factor;
    return (struct pair){p.high * factor + low / base, low % base};
}
static void print(wide number, int width) {
    char text[40];
    int at = 39;
    text[at] = 0;
    while (number || width > 0) {
        text[--at] = (char)('0' + (int)(number % 10));
        number /= 10;
        width--;
    }
    fputs(text + at, stdout);
}
int main(void) {
    struct pair factorial = {0, 1};
    for (unsigned i = 2; i <= 50; i++)
        factorial = times(factorial, i);
    print(factorial.high, 0);
    print(factorial.low, 32);
    puts("");
    return 0;
}
