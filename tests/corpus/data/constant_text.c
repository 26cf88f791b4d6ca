// Text and constants cannot be written; text can be read, unless the linker made it execute-only.
//# Variants: pie no-pie static
//# Output: text constant string readable
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
static const int constant = 5;
static sigjmp_buf back;
static void handler(int number) { siglongjmp(back, number); }
static void try_write(uintptr_t address, const char *name) {
    if (sigsetjmp(back, 1)) {
        printf("%s ", name);
        return;
    }
    *(volatile char *)address = 1;
    printf("%s is writable ", name);
}
int main(void) {
    signal(SIGSEGV, handler);
    try_write((uintptr_t)main, "text");
    try_write((uintptr_t)&constant, "constant");
    try_write((uintptr_t) "string", "string");
    puts(*(volatile const unsigned char *)(uintptr_t)main ? "readable" : "zero");
    return 0;
}
