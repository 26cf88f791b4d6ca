// The program takes away and gives back its right to execute, page by page, from the page where it does so.
//# Variants: pie no-pie static
//# Output: read-only data, text again
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline, aligned(4096))) static int here(int n) { return n + 1; }
__attribute__((noinline, aligned(4096))) static int there(int n) { return here(n) + 1; }
int main(void) {
    char *page = (char *)(unsigned long)here;
    if (mprotect(page, 4096, PROT_READ) || page[0] == 0)
        return 1;
    printf("read-only data, ");
    if (mprotect(page, 4096, PROT_READ | PROT_EXEC))
        return 1;
    puts(there(1) == 3 ? "text again" : "wrong");
    return 0;
}
