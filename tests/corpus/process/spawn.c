// posix_spawn with its output redirected into a file.
//# Variants: pie static
//# Output: spawned: text
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <fcntl.h>
int main(int argc, char **argv) {
    char line[20] = "", word[] = "x", *arguments[] = {argv[0], word, NULL}, *environment[] = {NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status;
    if (argc > 1)
        return puts("text") < 0;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "output", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environment))
        return 1;
    waitpid(child, &status, 0);
    FILE *file = fopen("output", "r");
    printf("spawned: %s", file ? fgets(line, sizeof line, file) : "nothing\n");
    return status;
}
