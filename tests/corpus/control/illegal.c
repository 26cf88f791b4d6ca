// An invalid instruction in the text: the handler steps over it.
//# Args: -D_GNU_SOURCE
//# Variants: pie no-pie+O2 static
//# Output: stepped over
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>
static void handler(int number, siginfo_t *info, void *context) {
    ucontext_t *c = context;
    (void)number;
    if (info->si_addr == (void *)c->uc_mcontext.gregs[REG_RIP])
        c->uc_mcontext.gregs[REG_RIP] += 2;
}
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, NULL);
    __asm__ volatile("ud2");
    puts("stepped over");
    return 0;
}
