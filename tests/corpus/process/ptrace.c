// A child is stopped, its code read and its register changed by the parent.
//# Variants: pie static
//# Output: child returned 42, code read
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) static int number(void) { return 7; }
int main(void) {
    long word;
    int status;
    struct user_regs_struct registers;
    pid_t child = fork();
    if (child == 0) {
        long result = 0;
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
            _exit(99);
        raise(SIGSTOP);
        __asm__ volatile("int3" : "+a"(result));
        _exit((int)result);
    }
    waitpid(child, &status, 0);
    word = ptrace(PTRACE_PEEKTEXT, child, (void *)(unsigned long)number, NULL);
    int same = memcmp(&word, (const void *)(unsigned long)number, sizeof word) == 0;
    ptrace(PTRACE_CONT, child, NULL, NULL);
    waitpid(child, &status, 0);
    ptrace(PTRACE_GETREGS, child, NULL, &registers);
    registers.rax = 42;
    ptrace(PTRACE_SETREGS, child, NULL, &registers);
    ptrace(PTRACE_CONT, child, NULL, NULL);
    waitpid(child, &status, 0);
    same &= number() == 7;
    printf("child returned %d, code %s\n", WEXITSTATUS(status), same ? "read" : "differs");
    return 0;
}
