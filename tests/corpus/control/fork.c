// A child inherits everything, changes its own copy, and ends with a status of its own.
//# Variants: static pie no-pie+O2
//# Expect: 7
//# Output: child 2
//# Output: parent 1
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static int value = 1;
int main(void) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        value = 2;
        printf("child %d\n", value);
        fflush(stdout);
        _exit(7);
    }
    waitpid(child, &status, 0);
    printf("parent %d\n", value);
    return WEXITSTATUS(status);
}
