// Faults end in a handler, which goes back by siglongjmp: of memory, of arithmetic, of an instruction.
//# Variants: no-pie pie+O2 static
//# Output: SEGV FPE ILL TRAP
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
static sigjmp_buf target;
static void handler(int number) { siglongjmp(target, number); }
int main(void) {
    const int numbers[] = {SIGSEGV, SIGFPE, SIGILL, SIGTRAP};
    const char *const names[] = {"SEGV ", "FPE ", "ILL ", "TRAP\n"};
    for (volatile int i = 0; i < 4; i++) {
        struct sigaction action;
        memset(&action, 0, sizeof action);
        action.sa_handler = handler;
        sigaction(numbers[i], &action, NULL);
        int got = sigsetjmp(target, 1);
        if (got) {
            printf("%s", got == numbers[i] ? names[i] : "wrong ");
            continue;
        }
        int high = 0, zero = 0;
        if (i == 0)
            __asm__ volatile("mov (%0), %%eax" : : "r"(16L) : "eax", "memory");
        if (i == 1)
            __asm__ volatile("idivl %2" : "+a"(high), "+d"(zero) : "r"(0));
        if (i == 2)
            __asm__ volatile("ud2");
        if (i == 3)
            __asm__ volatile("int3");
    }
    return 0;
}
