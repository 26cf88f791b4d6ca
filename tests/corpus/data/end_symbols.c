// etext, edata and end, and __bss_start, in the order that they promise.
//# Variants: no-pie pie static
//# Output: in order
#include <stdio.h>
extern char etext[], edata[], end[], __bss_start[];
static int initialised = 1, zero;
int main(void) {
    char *code = (char *)(unsigned long)main;
    int good = code < etext && (char *)&initialised < edata && &edata[0] <= &__bss_start[0] &&
               (char *)&zero >= __bss_start && (char *)&zero < end && initialised + zero == 1;
    puts(good ? "in order" : "out of order");
    return 0;
}
