// A program with an arena of code, as a JIT has: argv[1] windows of 2 MiB, in each of which a function runs, those of
// argv[2] leading ones all the time.  A line "rotate" on stdin moves the heat by as many windows, "unmap" and "protect"
// take the arena away, "forbid" requests small pages in it, "exec" starts the program anew, "fork" a child that waits, "pause N" prints the longest of 99 % of the gaps of N ms.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define WINDOW (2L << 20)
enum { PAGES = 64, MOST = 1 << 22 };
static uint32_t gaps[MOST];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static int larger(const void *a, const void *b) {
    return (*(const uint32_t *)a > *(const uint32_t *)b) - (*(const uint32_t *)a < *(const uint32_t *)b);
}

static void run(char *arena, long first, long hot, long all) {
    for (long i = 0; i < hot; i++)
        for (long page = 0; page < PAGES; page++)
            for (int again = 0; again < 50; again++)
                ((void (*)(void))(arena + (first + i) % all * WINDOW + page * 4096))();
}

int main(int argc, char **argv) {
    long all = argc > 1 ? atol(argv[1]) : 4, hot = argc > 2 ? atol(argv[2]) : 1, first = 0;
    char line[64];
    int shared = argc > 3 ? MAP_SHARED : MAP_PRIVATE;
    char *room = mmap(NULL, (all + 1) * WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *arena = (char *)(((uintptr_t)room + WINDOW - 1) & -(uintptr_t)WINDOW);
    // What is shared has windows only where its address fits its offset.
    if (mmap(arena, all * WINDOW, PROT_READ | PROT_WRITE | PROT_EXEC, shared | MAP_ANONYMOUS | MAP_FIXED, -1,
             0) != arena)
        return 1;
    for (long page = 0; page < all * WINDOW; page += 4096)
        memset(arena + page, 0x90, 64), arena[page + 64] = (char)0xc3; // nop …; ret
    // With a fourth word a child runs the next windows, for as long as its parent lives.
    if (argc > 4 && !fork())
        for (prctl(PR_SET_PDEATHSIG, SIGKILL);;)
            run(arena, hot, hot, all);
    if (write(1, "ready\n", 6) != 6)
        return 1;
    for (struct pollfd in = {.fd = 0, .events = POLLIN};;) {
        if (poll(&in, 1, 0) > 0) {
            ssize_t size = read(0, line, sizeof line - 1);
            if (size <= 0)
                return 0;
            line[size] = 0;
            if (!strncmp(line, "rotate", 6))
                first += hot;
            if (!strncmp(line, "unmap", 5))
                munmap(room, (all + 1) * WINDOW), arena = NULL;
            if (!strncmp(line, "protect", 7))
                mprotect(room, (all + 1) * WINDOW, PROT_READ), arena = NULL;
            if (!strncmp(line, "forbid", 6))
                madvise(room, (all + 1) * WINDOW, MADV_NOHUGEPAGE);
            if (!strncmp(line, "exec", 4))
                execv("/proc/self/exe", argv);
            if (!strncmp(line, "fork", 4) && !fork())
                for (prctl(PR_SET_PDEATHSIG, SIGKILL);;)
                    pause();
            if (!strncmp(line, "pause", 5)) {
                long count = 0;
                double end = now() + atof(line + 5) * 1e3, last = now();
                while (last < end && count < MOST) {
                    run(arena, first, hot, all);
                    double next = now();
                    gaps[count++] = (uint32_t)(next - last);
                    last = next;
                }
                qsort(gaps, (size_t)count, sizeof *gaps, larger);
                printf("%u %u\n", gaps[count * 99 / 100], gaps[count - 1]);
                fflush(stdout);
                continue;
            }
            if (write(1, "done\n", 5) != 5)
                return 1;
        }
        if (arena)
            run(arena, first, hot, all);
        else
            usleep(1000);
    }
}
