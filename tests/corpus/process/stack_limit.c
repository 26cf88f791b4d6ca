// A stack that grows by megabytes, in the main thread and in one whose size is asked for.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie static no-pie+O2
//# Output: 4 MiB 16 MiB
#include <pthread.h>
#include <stdio.h>
#include <string.h>
__attribute__((noinline)) static int use(int mebibytes) {
    volatile char block[1 << 20];
    memset((char *)block, mebibytes, sizeof block);
    return mebibytes > 1 ? use(mebibytes - 1) + block[77] - mebibytes + 1 : block[5];
}
static void *body(void *unused) {
    printf("%d MiB\n", use(16));
    return unused;
}
int main(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    printf("%d MiB ", use(4));
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 32 << 20);
    pthread_create(&thread, &attributes, body, NULL);
    pthread_join(thread, NULL);
    return 0;
}
