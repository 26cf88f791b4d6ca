// Mutexes, condition variables, barriers.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie static no-pie+O2
//# Output: 4000 ready
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int total, finished;
static void *body(void *unused) {
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&mutex);
        total++;
        pthread_mutex_unlock(&mutex);
    }
    pthread_mutex_lock(&mutex);
    finished++;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    return unused;
}
int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, body, NULL);
    pthread_mutex_lock(&mutex);
    while (finished < 4)
        pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%d ready\n", total);
    return 0;
}
