// The program reads its own code and calls a copy of it.
//# Variants: pie no-pie static
//# Output: 42
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
__asm__(".type answer, @function\nanswer: mov $42, %eax\n ret\n.size answer, . - answer");
extern const char answer[] __attribute__((visibility("hidden")));
int main(void) {
    int (*copy)(void);
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, answer, 6);
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    *(void **)&copy = page;
    printf("%d\n", copy());
    return 0;
}
