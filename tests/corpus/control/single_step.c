// The trap flag: the program counts its own instructions.
//# Args: -D_GNU_SOURCE
//# Variants: pie static
//# Output: counted
#include <signal.h>
#include <stdio.h>
static volatile int steps;
static void handler(int number) {
    (void)number;
    steps++;
}
int main(void) {
    signal(SIGTRAP, handler);
    __asm__ volatile("sub $128, %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
                     "nop\n\tnop\n\tnop\n\tnop\n\t"
                     "pushfq\n\tandq $-257, (%%rsp)\n\tpopfq\n\tadd $128, %%rsp" ::
                         : "cc", "memory");
    puts(steps >= 6 && steps <= 8 ? "counted" : "lost count");
    return 0;
}
