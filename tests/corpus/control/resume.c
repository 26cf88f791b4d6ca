// A handler of SIGILL steps over the instruction by changing the context.
//# Variants: pie static no-pie+O2
//# Output: resumed 2
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
static volatile int count;
static void handler(int number, siginfo_t *info, void *data) {
    ucontext_t *context = data;
    count += (long)info->si_addr == context->uc_mcontext.gregs[REG_RIP] && number == SIGILL;
    context->uc_mcontext.gregs[REG_RIP] += 2;
}
int main(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, NULL);
    __asm__ volatile("ud2\nud2" : : : "memory");
    printf("resumed %d\n", count);
    return 0;
}
