// Thread-local variables of the program itself: initialised, zero, aligned.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie no-pie+O2 static static-pie pie+lto pie+gc
//# Output: 42 0 aligned
//# Output: 42 0 aligned
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
static __thread int set = 42;
static __thread int zero;
static __thread char wide[64] __attribute__((aligned(64)));
static void *body(void *unused) {
    printf("%d %d %s\n", set, zero, (uintptr_t)wide % 64 ? "skew" : "aligned");
    set = zero = 7;
    return unused;
}
int main(void) {
    pthread_t thread;
    body(NULL);
    pthread_create(&thread, NULL, body, NULL);
    return pthread_join(thread, NULL);
}
