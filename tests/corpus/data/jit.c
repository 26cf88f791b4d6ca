// Code written at run time into pages that are first writable, then executable.
//# Variants: pie no-pie static
//# Output: 0 1 4 9 16
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int main(void) {
    // mov %edi, %eax; imul %edi, %eax; ret
    static const unsigned char code[] = {0x89, 0xf8, 0x0f, 0xaf, 0xc7, 0xc3};
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int (*square)(int);
    memcpy(page, code, sizeof code);
    if (mprotect(page, 4096, PROT_READ | PROT_EXEC))
        return 1;
    memcpy(&square, &page, sizeof square);
    for (int i = 0; i < 5; i++)
        printf("%d%c", square(i), i < 4 ? ' ' : '\n');
    return 0;
}
