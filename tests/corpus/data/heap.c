// The heap begins behind the zero data and grows.
//# Args: -D_DEFAULT_SOURCE
//# Variants: pie no-pie static
//# Output: behind, grown
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
extern char end[];
int main(void) {
    char *old = sbrk(0);
    char *more = sbrk(8 << 20);
    if (more == (void *)-1)
        return 1;
    memset(more, 1, 8 << 20);
    printf("%s, %s\n", (uintptr_t)old >= (uintptr_t)end ? "behind" : "inside",
           more == old ? "grown" : "moved");
    return 0;
}
