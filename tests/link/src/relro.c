/* Exit 0; with an argument, write to RELRO data: 42 if that raises SIGSEGV, 1 if it goes through. */
#include <signal.h>
#include <unistd.h>

unsigned big_sum(void);
unsigned (*const table[])(void) = {big_sum}; /* relocated, so .data.rel.ro in a PIE */

static void handler(int number) {
    (void)number;
    _exit(42);
}

int main(int argc, char **argv) {
    (void)argv;
    signal(SIGSEGV, handler);
    if (argc > 1) {
        *(unsigned (*volatile *)(void))table = 0;
        return 1;
    }
    return table[0]() != 3000u * 2999u / 2u;
}
