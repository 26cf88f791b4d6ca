// Libraries are initialised before the program, in the order of their dependencies, and finished after it.
//# Library: LOW
//# Library: HIGH -Wl,--no-as-needed libLOW.so
//# Variants: pie no-pie pie+now+gc
//# Output: up LOW
//# Output: up HIGH
//# Output: up program
//# Output: down program
//# Output: down HIGH
//# Output: down LOW
#include <unistd.h>
#ifdef LOW
#define NAME "LOW\n"
#elif defined HIGH
#define NAME "HIGH\n"
#else
#define NAME "program\n"
int high(void);
int main(void) { return high(); }
#endif
#ifdef LOW
int low(void);
int low(void) { return 0; }
#elif defined HIGH
int low(void);
int high(void);
int high(void) { return low(); }
#endif
__attribute__((constructor)) static void up(void) {
    if (write(1, "up " NAME, sizeof "up " NAME - 1) < 0)
        _exit(9);
}
__attribute__((destructor)) static void down(void) {
    if (write(1, "down " NAME, sizeof "down " NAME - 1) < 0)
        _exit(9);
}
