// pthread_once from many threads, keys whose destructors set them again.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie static
//# Output: once 1, destroyed 12
#include <pthread.h>
#include <stdio.h>
static pthread_once_t control = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int once, destroyed;
static void destroy(void *value) {
    long left = (long)value;
    __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED);
    if (left > 1)
        pthread_setspecific(key, (void *)(left - 1));
}
static void initialise(void) {
    once++;
    pthread_key_create(&key, destroy);
}
static void *body(void *number) {
    pthread_once(&control, initialise);
    pthread_setspecific(key, number);
    return NULL;
}
int main(void) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, body, (void *)3);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("once %d, destroyed %d\n", once, destroyed);
    return 0;
}
