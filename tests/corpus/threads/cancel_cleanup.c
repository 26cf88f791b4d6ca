// Cancellation at a point and at once; clean-up handlers run in reverse.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie no-pie+O2 static
//# Output: second first canceled
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void say(void *text) { printf("%s ", (const char *)text); }
static void *body(void *unused) {
    static char first[] = "first", second[] = "second";
    pthread_cleanup_push(say, first);
    pthread_cleanup_push(say, second);
    for (;;)
        sleep(100);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return unused;
}
int main(void) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, body, NULL);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    puts(result == PTHREAD_CANCELED ? "canceled" : "returned");
    return 0;
}
