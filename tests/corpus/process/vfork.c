// vfork and exec of the program itself under another name, with a fresh environment.
//# Args: -D_GNU_SOURCE
//# Variants: pie static-pie no-pie+O2
//# Output: child other A=1 none
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    (void)argc;
    if (strcmp(argv[0], "other") == 0) {
        printf("child %s A=%s %s\n", argv[0], getenv("A"), getenv("HOME") ? "home" : "none");
        return 0;
    }
    char name[] = "other", setting[] = "A=1";
    char *arguments[] = {name, NULL}, *environment[] = {setting, NULL};
    pid_t child = vfork();
    if (child == 0) {
        execve("/proc/self/exe", arguments, environment);
        _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
