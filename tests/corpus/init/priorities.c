// Constructors and destructors by priority, atexit between them.
//# Variants: pie no-pie+O2 static static-pie pie+gc pie+lto
//# Output: c101 c200 c main exit d d200 d101
#include <stdio.h>
#include <stdlib.h>
#define BOTH(suffix, ...)                                                                                    \
    __attribute__((constructor __VA_ARGS__)) static void up##suffix(void) { printf("c" #suffix " "); }       \
    __attribute__((destructor __VA_ARGS__)) static void down##suffix(void) {                                 \
        printf("d" #suffix);                                                                                 \
        puts_or_space(#suffix);                                                                              \
    }
static void puts_or_space(const char *suffix) { putchar(suffix[0] == '1' ? '\n' : ' '); }
BOTH(200, (200))
BOTH(, )
BOTH(101, (101))
static void at_exit(void) { printf("exit "); }
int main(void) {
    atexit(at_exit);
    printf("main ");
    return 0;
}
