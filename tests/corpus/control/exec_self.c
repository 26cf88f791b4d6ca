// The program executes itself by /proc/self/exe, and starts itself with posix_spawn.
//# Variants: pie static no-pie
//# Output: first
//# Output: second
//# Output: third
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char *again[] = {argv[0], "x", argc > 1 ? "y" : NULL, NULL};
    static const char *const names[] = {"first", "second", "third"};
    puts(names[argc - 1]);
    fflush(stdout);
    if (argc == 1)
        return execve("/proc/self/exe", again, environ);
    if (argc == 3)
        return 0;
    pid_t child;
    int status;
    if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, again, environ))
        return 1;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
