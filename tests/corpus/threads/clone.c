// A thread made by the system call itself, on a stack of the program's own, awaited by futex.
//# Args: -D_GNU_SOURCE
//# Variants: pie static no-pie
//# Output: child wrote 42
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
static _Alignas(16) char stack[65536];
static volatile int value, running = 1;
static int body(void *argument) {
    value = *(int *)argument;
    return 0;
}
int main(void) {
    int number = 42;
    if (clone(body, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_CHILD_CLEARTID | SIGCHLD,
              &number, NULL, NULL, &running) < 0)
        return 1;
    while (running)
        syscall(SYS_futex, &running, FUTEX_WAIT, 1, NULL, NULL, 0);
    printf("child wrote %d\n", value);
    return 0;
}
