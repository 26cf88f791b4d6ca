// Memory shared with a child, a semaphore in it, and a file mapped both ways.
//# Args: -D_GNU_SOURCE -pthread
//# Link: -pthread
//# Variants: pie static
//# Output: 1000 abc
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
struct shared {
    sem_t lock;
    int count;
};
int main(void) {
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_init(&s->lock, 1, 1);
    pid_t child = fork();
    for (int i = 0; i < 500; i++) {
        sem_wait(&s->lock);
        s->count++;
        sem_post(&s->lock);
    }
    if (child == 0)
        _exit(0);
    wait(NULL);
    int file = memfd_create("file", 0);
    if (ftruncate(file, 4096))
        return 1;
    char *view = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), text[4] = "";
    strcpy(view, "abc");
    if (pread(file, text, 3, 0) != 3)
        return 1;
    printf("%d %s\n", s->count, text);
    return 0;
}
