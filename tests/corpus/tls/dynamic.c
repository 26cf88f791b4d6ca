// General and local dynamic models in a library, several threads.
//# Args: -pthread
//# Link: -pthread
//# Library: LIBRARY
//# Variants: pie pie+O2 no-pie pie+noplt+O2 pie+lto pie+relr
//# Output: 111 222 333
int *general(void);
int local(int add);
#ifdef LIBRARY
__thread int exported = 100;
static __thread int first = 1, second = 10;
int *general(void) { return &exported; }
int local(int add) {
    first += add;
    second += 10 * add;
    return exported + first + second;
}
#else
#include <pthread.h>
#include <stdio.h>
static void *body(void *argument) {
    long number = (long)argument;
    *general() *= (int)number;
    return (void *)(long)local((int)number - 1);
}
int main(void) {
    long results[3];
    for (long n = 1; n <= 3; n++) {
        pthread_t thread;
        pthread_create(&thread, NULL, body, (void *)n);
        pthread_join(thread, (void **)&results[n - 1]);
    }
    printf("%ld %ld %ld\n", results[0], results[1], results[2]);
    return 0;
}
#endif
