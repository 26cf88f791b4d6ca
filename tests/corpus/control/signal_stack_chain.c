// Handlers nested by a mask, queued signals with values, and a signal waited for without a handler.
//# Args: -D_GNU_SOURCE
//# Variants: pie static
//# Output: 3 2 1 then 7
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static int order[3], count;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    order[count++] = info->si_value.sival_int;
}
int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigaddset(&set, SIGRTMIN + 1);
    sigaction(SIGRTMIN, &action, NULL);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (int i = 3; i > 0; i--)
        sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i});
    sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 7});
    sigwaitinfo(&set, &info);
    order[count++] = info.si_value.sival_int;
    sigdelset(&set, SIGRTMIN + 1);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1);
    sigwaitinfo(&set, &info);
    printf("%d %d %d then %d\n", order[0], order[1], order[2], info.si_value.sival_int);
    return 0;
}
