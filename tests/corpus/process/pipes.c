// Parent and child talk through two pipes; the child's status comes back.
//# Args: -D_GNU_SOURCE
//# Variants: pie static no-pie
//# Output: HELLO 7
#include <ctype.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    int down[2], up[2], status;
    char text[6] = "";
    if (pipe2(down, 0) || pipe2(up, 0))
        return 1;
    pid_t child = fork();
    if (child == 0) {
        char c;
        close(down[1]);
        while (read(down[0], &c, 1) == 1) {
            c = (char)toupper(c);
            if (write(up[1], &c, 1) != 1)
                _exit(1);
        }
        _exit(7);
    }
    if (write(down[1], "hello", 5) != 5)
        return 1;
    close(down[1]);
    waitpid(child, &status, 0);
    if (read(up[0], text, 5) != 5)
        return 1;
    printf("%s %d\n", text, WEXITSTATUS(status));
    return 0;
}
