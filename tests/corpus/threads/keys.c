// pthread_once, thread-specific data with destructors, a thread with a stack of our own.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie static
//# Output: once
//# Output: destroyed 5
#include <pthread.h>
#include <stdio.h>
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static char stack[1 << 18] __attribute__((aligned(4096)));
static void destroy(void *value) { printf("destroyed %ld\n", (long)value); }
static void make(void) {
    puts("once");
    pthread_key_create(&key, destroy);
}
static void *body(void *value) {
    pthread_once(&once, make);
    pthread_setspecific(key, value);
    return NULL;
}
int main(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, sizeof stack);
    pthread_once(&once, make);
    pthread_create(&thread, &attributes, body, (void *)5L);
    return pthread_join(thread, NULL);
}
