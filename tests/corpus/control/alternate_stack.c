// Endless recursion is caught on an alternate stack.
//# Variants: pie static
//# Args: -Wno-infinite-recursion -Wno-unknown-warning-option
//# Expect: 5
//# Output: overflow
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
static char stack[65536];
static void handler(int number) {
    (void)number;
    _exit(write(1, "overflow\n", 9) == 9 ? 5 : 9);
}
static volatile int guard = 1;
__attribute__((noinline)) static int dig(volatile char *above) {
    volatile char frame[1024];
    frame[0] = above[0];
    return guard ? dig(frame) + frame[0] : 0;
}
int main(void) {
    struct rlimit small = {1 << 20, 1 << 20};
    stack_t alternate;
    struct sigaction action;
    memset(&alternate, 0, sizeof alternate);
    memset(&action, 0, sizeof action);
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    action.sa_handler = handler;
    action.sa_flags = SA_ONSTACK;
    setrlimit(RLIMIT_STACK, &small);
    sigaltstack(&alternate, NULL);
    sigaction(SIGSEGV, &action, NULL);
    return dig(stack);
}
