// Threads of C11, _Atomic, and thread_local.
//# Args: -pthread -std=gnu11
//# Link: -pthread
//# Variants: pie static pie+c17
//# Output: 6 1
#include <stdatomic.h>
#include <stdio.h>
#include <threads.h>
static _Atomic int sum;
static thread_local int mine = 1;
static int body(void *argument) {
    mine += (int)(long)argument;
    sum += mine - 1;
    return 0;
}
int main(void) {
    thrd_t threads[3];
    for (long i = 0; i < 3; i++)
        thrd_create(&threads[i], body, (void *)(i + 1));
    for (int i = 0; i < 3; i++)
        thrd_join(threads[i], NULL);
    printf("%d %d\n", sum, mine);
    return 0;
}
