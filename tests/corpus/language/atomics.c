// C11 atomics of every size: exchange, compare, fetch and add, flags and fences, by four threads.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie+c11 static+c11+O2
//# Output: 40000 40000 40000 4
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
static atomic_uchar tiny;
static atomic_long sum, by_loop;
static int guarded;
static atomic_flag lock = ATOMIC_FLAG_INIT;
static void *work(void *unused) {
    for (int i = 0; i < 10000; i++) {
        atomic_fetch_add_explicit(&sum, 1, memory_order_relaxed);
        long seen = atomic_load(&by_loop);
        while (!atomic_compare_exchange_weak(&by_loop, &seen, seen + 1)) {
        }
        while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire)) {
        }
        guarded++;
        atomic_flag_clear_explicit(&lock, memory_order_release);
    }
    atomic_fetch_add(&tiny, 1);
    return unused;
}
int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%ld %ld %d %d\n", atomic_load(&sum), atomic_load(&by_loop), guarded, atomic_load(&tiny));
    return 0;
}
