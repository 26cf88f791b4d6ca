// Events of a timer and of a counter, waited for together.
//# Variants: pie static
//# Output: counter 5 timer
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
int main(void) {
    int poll = epoll_create1(0), files[2] = {eventfd(5, 0), timerfd_create(CLOCK_MONOTONIC, 0)};
    struct itimerspec soon = {{0, 0}, {0, 20000000}};
    timerfd_settime(files[1], 0, &soon, NULL);
    for (int i = 0; i < 2; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        epoll_ctl(poll, EPOLL_CTL_ADD, files[i], &event);
    }
    for (int seen = 0; seen < 2; seen++) {
        struct epoll_event event;
        uint64_t value;
        if (epoll_wait(poll, &event, 1, 5000) != 1 || read(files[event.data.u32], &value, 8) != 8)
            return 1;
        if (event.data.u32 == 0)
            printf("counter %d ", (int)value);
        else
            puts("timer");
    }
    return 0;
}
