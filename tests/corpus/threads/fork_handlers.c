// pthread_atfork: prepared in reverse, parent and child in order; the child has one thread.
//# Args: -pthread
//# Link: -pthread
//# Variants: pie static
//# Output: b a A B
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static char order[8];
static int count;
static void prepare_a(void) { order[count++] = 'a'; }
static void prepare_b(void) { order[count++] = 'b'; }
static void child_a(void) { order[count++] = 'A'; }
static void child_b(void) { order[count++] = 'B'; }
int main(void) {
    pthread_atfork(prepare_a, NULL, child_a);
    pthread_atfork(prepare_b, NULL, child_b);
    if (fork() == 0) {
        printf("%c %c %c %c\n", order[0], order[1], order[2], order[3]);
        return 0;
    }
    return wait(NULL) < 0;
}
