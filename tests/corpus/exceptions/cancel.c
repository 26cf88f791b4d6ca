// Cancelling a thread unwinds it and runs the cleanups of C.
//# Args: -pthread -fexceptions
//# Link: -pthread
//# Variants: pie no-pie+O2
//# Output: cleanup
//# Output: cancelled
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void cleanup(int *value) { puts(*value == 5 ? "cleanup" : "wrong"); }
static void *body(void *argument) {
    __attribute__((cleanup(cleanup), unused)) int value = 5;
    for (;;)
        pause();
    return argument;
}
int main(void) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, body, NULL);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    puts(result == PTHREAD_CANCELED ? "cancelled" : "returned");
    return 0;
}
