// Starts argv[1] processes that only wait, then argv[2] that run argv[3], and ends them all when its stdin does.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int small = argc > 3 ? atoi(argv[1]) : 0, large = argc > 3 ? atoi(argv[2]) : 0;
    char byte;
    for (int i = 0; i < small + large; i++) {
        pid_t child = fork();
        if (child < 0)
            return 1;
        if (child)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(0);
        if (i >= small) {
            dup2(open("/dev/null", O_WRONLY), 1); // what it says is not for the one who waits for us
            execl(argv[3], argv[3], "5", (char *)NULL);
            _exit(1);
        }
        for (;;)
            pause();
    }
    sleep(2);
    if (write(1, "ready\n", 6) == 6 && read(0, &byte, 1) < 0)
        return 1;
    return 0;
}
