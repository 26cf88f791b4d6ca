// A clock that stands still, without alarms, and a process number that is always the same, for a traced PostgreSQL: when
// it reports its statistics, and how many digits it prints, must not depend on how long the emulator takes.  Preloaded
// by the trace.

#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 1795219200, PROCESS = 4321 }; // 2026-11-21

int clock_gettime(clockid_t clock, struct timespec *now) {
    (void)clock;
    *now = (struct timespec){.tv_sec = SECONDS};
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    *now = (struct timeval){.tv_sec = SECONDS};
    return 0;
}

time_t time(time_t *now) {
    if (now)
        *now = SECONDS;
    return SECONDS;
}

int setitimer(__itimer_which_t which, const struct itimerval *restrict value,
              struct itimerval *restrict old) {
    (void)which, (void)value, (void)old;
    return 0;
}

pid_t getpid(void) { return PROCESS; }
