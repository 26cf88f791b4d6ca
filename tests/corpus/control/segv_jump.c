// Out of a handler for a bad access by siglongjmp, a hundred times.
//# Variants: pie+O2 no-pie static
//# Output: 100 faults
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
static sigjmp_buf back;
static void handler(int number) { siglongjmp(back, number); }
int main(void) {
    volatile int faults = 0;
    volatile char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    signal(SIGSEGV, handler);
    while (faults < 100)
        if (sigsetjmp(back, 1) == 0)
            *page = 1;
        else
            faults++;
    printf("%d faults\n", faults);
    return 0;
}
