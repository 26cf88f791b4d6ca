// Relocated constants are read-only once the program runs: a write to one ends in SIGSEGV.
//# Args: -Wno-cast-qual
//# Variants: pie+now no-pie+now static-pie static pie
//# Output: 5 protected
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
static int target = 5;
static int *const table[512] = {&target, [511] = &target};
static sigjmp_buf back;
static void handler(int number) { siglongjmp(back, number); }
int main(void) {
    int *const *volatile entry = table;
    signal(SIGSEGV, handler);
    printf("%d ", *entry[511]);
    if (sigsetjmp(back, 1) == 0) {
        *(int **)&entry[256] = NULL;
        puts("written");
    } else {
        puts("protected");
    }
    return 0;
}
