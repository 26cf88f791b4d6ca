// A megabyte of zero TLS, an aligned page of it, and initialised data, in several threads.
//# SkipLinker: wild static (with wild 0.10 the static program crashes in its TLS, also without hugealign)
//# Args: -pthread
//# Link: -pthread
//# Variants: static pie no-pie+O2
//# Output: sum 1020
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
static __thread char zero[1 << 20];
static __thread char page[4096] __attribute__((aligned(4096)));
static __thread int data[1024] = {[1023] = 255};
static void *body(void *unused) {
    long sum = 0;
    for (int i = 0; i < 1 << 20; i++)
        sum += zero[i]++;
    for (int i = 0; i < 1024; i++)
        sum += data[i];
    (void)unused;
    return (void *)(sum + page[5] + (long)((uintptr_t)page % 4096));
}
int main(void) {
    pthread_t threads[4];
    long sum = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, body, NULL);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    printf("sum %ld\n", sum);
    return 0;
}
