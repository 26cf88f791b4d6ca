// A library with TLS is loaded after the threads were started.
//# Args: -pthread
//# Link: -pthread -ldl
//# Plugin: PLUGIN
//# Variants: pie no-pie
//# Output: 8 8
#ifdef PLUGIN
static __thread int counter = 7;
static __thread char big[20000];
int next(void);
int next(void) {
    big[counter]++;
    return ++counter;
}
#else
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
static pthread_barrier_t barrier;
static int (*next)(void);
static void *body(void *unused) {
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    (void)unused;
    return (void *)(long)next();
}
int main(void) {
    pthread_t thread;
    void *result;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, body, NULL);
    pthread_barrier_wait(&barrier);
    void *plugin = dlopen("libPLUGIN.so", RTLD_NOW);
    if (!plugin) {
        puts(dlerror());
        return 1;
    }
    *(void **)&next = dlsym(plugin, "next");
    int mine = next();
    pthread_barrier_wait(&barrier);
    pthread_join(thread, &result);
    printf("%d %ld\n", mine, (long)result);
    return 0;
}
#endif
