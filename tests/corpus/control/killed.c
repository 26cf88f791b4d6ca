// A program that kills itself is seen to be killed by that signal.
//# Variants: pie no-pie
//# Expect: -15
//# Output: going
#include <signal.h>
#include <stdio.h>
int main(void) {
    puts("going");
    fflush(stdout);
    raise(SIGTERM);
    return 0;
}
