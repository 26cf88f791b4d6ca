// Thread-local variables of large alignment, in the program and in threads, zero and initialised.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie static no-pie
//# Output: aligned 3
#include <pthread.h>
#include <stdio.h>
static __thread char before = 1;
static __thread _Alignas(1024) int wide = 1;
static __thread _Alignas(64) int zero;
static void *check(void *unused) {
    static int good;
    if ((unsigned long)&wide % 1024 == 0 && (unsigned long)&zero % 64 == 0 && wide + before == 2 && zero == 0)
        good++;
    wide = zero = before = 9;
    return good + (char *)unused;
}
int main(void) {
    void *result = check(NULL);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, check, NULL);
        pthread_join(thread, &result);
    }
    printf("aligned %d\n", (int)(long)result);
    return 0;
}
