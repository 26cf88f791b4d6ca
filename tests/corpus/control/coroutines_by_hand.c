// Stacks switched by twenty lines of assembly, with call-frame information.
//# Variants: pie+O2 no-pie static
//# Output: ping pong ping pong ping pong done
#include <stdio.h>
void switch_stack(void **save, void *load);
__asm__(".text\n.type switch_stack, @function\n.globl switch_stack\nswitch_stack:\n"
        "push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n"
        ".size switch_stack, . - switch_stack");
static void *main_stack, *other_stack;
static _Alignas(16) unsigned long memory[8192];
static void other(void) {
    for (;;) {
        printf("pong ");
        switch_stack(&other_stack, main_stack);
    }
}
int main(void) {
    unsigned long *top = memory + 8190;
    *--top = (unsigned long)other;
    top -= 6;
    other_stack = top;
    for (int i = 0; i < 3; i++) {
        printf("ping ");
        switch_stack(&main_stack, other_stack);
    }
    puts("done");
    return 0;
}
