// A process with argv[1] mappings of its own file, every second of them executable, and waits.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 0;
    int fd = open("/proc/self/exe", O_RDONLY);
    for (int i = 0; i < count; i++) {
        // Neighbours differ, so that the kernel does not join them.
        char *at = mmap(NULL, 8192, i % 2 ? PROT_READ : PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        if (at == MAP_FAILED)
            return 1;
        (void)*(volatile char *)at;
    }
    if (write(1, "ready\n", 6) == 6)
        pause();
    return 0;
}
