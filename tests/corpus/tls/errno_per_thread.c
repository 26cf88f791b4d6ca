// errno and the locale's pointer are each thread's own.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie static
//# Output: mine 5 theirs 2
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
static void *body(void *unused) {
    (void)unused;
    return open("/no/such/file", O_RDONLY) < 0 ? (void *)(long)errno : NULL;
}
int main(void) {
    pthread_t thread;
    void *theirs;
    errno = 5;
    pthread_create(&thread, NULL, body, NULL);
    pthread_join(thread, &theirs);
    int mine = errno;
    printf("mine %d theirs %ld\n", mine, (long)theirs);
    return 0;
}
