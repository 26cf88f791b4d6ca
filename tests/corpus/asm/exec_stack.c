// -z execstack makes the stack executable.
//# Link: -Wl,-z,execstack
//# Variants: pie no-pie static
//# Output: 7
#include <stdio.h>
#include <string.h>
int main(void) {
    unsigned char code[] = {0xb8, 7, 0, 0, 0, 0xc3};
    int (*function)(void);
    void *address = code;
    memcpy(&function, &address, sizeof address);
    printf("%d\n", function());
    return 0;
}
