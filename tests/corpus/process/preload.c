// LD_PRELOAD: the program runs itself with a library that stands before the C library.
//# Plugin: PRELOADED
//# Variants: pie no-pie pie+now
//# Output: not yet; interposed 99
#ifdef PRELOADED
int getppid(void);
int getppid(void) { return 99; }
#else
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (argc > 1)
        return printf("interposed %d\n", getppid()) < 0;
    char word[] = "again", *arguments[] = {argv[0], word, NULL};
    printf("%s; ", getppid() == 99 ? "already" : "not yet");
    fflush(stdout);
    setenv("LD_PRELOAD", "./libPRELOADED.so", 1);
    execv("/proc/self/exe", arguments);
    return 1;
}
#endif
