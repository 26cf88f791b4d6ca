// A weak reference to a function with TLS that nobody defines.
//# Variants: static pie no-pie
//# Output: absent
#include <stdio.h>
extern int *slot(void) __attribute__((weak));
static __thread int value = 3;
int main(void) {
    puts(slot ? "present" : "absent");
    return value != 3;
}
