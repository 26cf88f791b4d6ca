// atexit and on_exit in reverse order, one of them registered by another; stdio is flushed last.
//# Args: -D_DEFAULT_SOURCE
//# Variants: pie static no-pie+O2
//# Expect: 5
//# Output: main late status 5 first
#include <stdio.h>
#include <stdlib.h>
static void first(void) { printf("first\n"); }
static void late(void) { printf("late "); }
static void with_status(int status, void *text) { printf("%s %d ", (const char *)text, status); }
static void registers(void) { atexit(late); }
int main(void) {
    static char text[] = "status";
    atexit(first);
    on_exit(with_status, text);
    atexit(registers);
    printf("main ");
    exit(5);
}
