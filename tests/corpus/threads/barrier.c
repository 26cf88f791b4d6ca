// Barriers, read-write locks, spin locks and condition variables of POSIX.
//# Args: -D_GNU_SOURCE -pthread
//# Link: -pthread
//# Variants: pie+O2 static no-pie
//# Output: 3 phases, serial 3, sum 300
#include <pthread.h>
#include <stdio.h>
static pthread_barrier_t barrier;
static pthread_spinlock_t spin;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int serial, sum, phases;
static void *work(void *unused) {
    for (int phase = 0; phase < 3; phase++) {
        for (int i = 0; i < 25; i++) {
            pthread_spin_lock(&spin);
            sum++;
            pthread_spin_unlock(&spin);
        }
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
            pthread_rwlock_wrlock(&lock);
            serial++;
            phases = phase + 1;
            pthread_rwlock_unlock(&lock);
        }
        pthread_barrier_wait(&barrier);
        pthread_rwlock_rdlock(&lock);
        int seen = phases;
        pthread_rwlock_unlock(&lock);
        if (seen != phase + 1)
            return &serial;
    }
    return unused;
}
int main(void) {
    pthread_t threads[4];
    pthread_barrier_init(&barrier, NULL, 4);
    pthread_spin_init(&spin, 0);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        if (result)
            return 1;
    }
    printf("%d phases, serial %d, sum %d\n", phases, serial, sum);
    return 0;
}
