// A table of relative addresses, as in the kernel: faulting instructions and where to go on.
//# Variants: pie no-pie static
//# Output: fixed up
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
struct entry {
    int32_t fault, fixup;
};
extern const struct entry __start_fixups[], __stop_fixups[];
static uintptr_t absolute(const int32_t *field) { return (uintptr_t)field + (uintptr_t)(intptr_t)*field; }
static void handler(int number, siginfo_t *info, void *data) {
    greg_t *ip = &((ucontext_t *)data)->uc_mcontext.gregs[REG_RIP];
    (void)info;
    for (const struct entry *e = __start_fixups; e < __stop_fixups; e++)
        if (absolute(&e->fault) == (uintptr_t)*ip) {
            *ip = (greg_t)absolute(&e->fixup);
            return;
        }
    signal(number, SIG_DFL);
}
int main(void) {
    struct sigaction action;
    int result = 1;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
    __asm__ volatile("1: movl $2, (%1)\n2:\n.pushsection fixups, \"a\"\n.long 1b - ., 2b - .\n.popsection"
                     : "+r"(result)
                     : "r"(24L)
                     : "memory");
    puts(result == 1 ? "fixed up" : "?");
    return 0;
}
