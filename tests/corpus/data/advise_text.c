// Advice of every kind on the program's own text: it keeps running.
//# Args: -D_GNU_SOURCE
//# Variants: pie no-pie static-pie
//# Output: still here
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
extern char __executable_start[], etext[];
int main(void) {
    unsigned long page = (unsigned long)sysconf(_SC_PAGESIZE), start = (unsigned long)main / page * page;
    int advice[] = {MADV_NORMAL, MADV_RANDOM, MADV_WILLNEED, MADV_DONTNEED, MADV_HUGEPAGE, MADV_NOHUGEPAGE};
    for (int i = 0; i < 6; i++)
        madvise((void *)start, page, advice[i]); // which may fail: some kernels know not all of it
    puts((unsigned long)__executable_start < (unsigned long)etext ? "still here" : "odd");
    return 0;
}
