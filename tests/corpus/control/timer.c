// A timer interrupts a computation; the flag that its handler sets ends it.
//# Variants: pie+O2 static
//# Output: interrupted
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
static volatile sig_atomic_t done;
static void handler(int number) { done = number; }
int main(void) {
    const struct itimerval soon = {{0, 0}, {0, 2000}};
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &soon, NULL);
    while (!done) {
    }
    puts(done == SIGALRM ? "interrupted" : "odd");
    return 0;
}
