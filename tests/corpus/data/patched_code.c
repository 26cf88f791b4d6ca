// Live patching: the page of a function is made writable, changed, and made executable again.
//# Variants: pie no-pie static
//# Output: 1 2
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
__asm__(".text\n.balign 16\n.type answer, @function\nanswer: mov $1, %eax\n ret\n.size answer, . - answer");
int answer(void) __attribute__((visibility("hidden")));
int main(void) {
    int before = answer();
    uintptr_t address = (uintptr_t)answer;
    void *page = (void *)(address & ~(uintptr_t)4095);
    if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC))
        return 1;
    *(volatile unsigned char *)(address + 1) = 2;
    if (mprotect(page, 8192, PROT_READ | PROT_EXEC))
        return 2;
    printf("%d %d\n", before, answer());
    return 0;
}
