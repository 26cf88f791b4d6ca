// The vDSO, auxiliary values, and a sleep.
//# Args: -D_GNU_SOURCE
//# Variants: pie static static-pie
//# Output: forward
#include <stdio.h>
#include <sys/auxv.h>
#include <time.h>
int main(void) {
    struct timespec before, after, pause = {0, 1000000};
    clock_gettime(CLOCK_MONOTONIC, &before);
    nanosleep(&pause, NULL);
    clock_gettime(CLOCK_MONOTONIC, &after);
    long passed = (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec;
    puts(passed >= 1000000 && getauxval(AT_SYSINFO_EHDR) ? "forward" : "backward");
    return 0;
}
