// A table of offsets beside the code that jumps through it, as compilers for position-independent code make it.
//# Variants: pie no-pie static static-pie
//# Expect: 33
        .globl main
        .text
main:   xor %eax, %eax
        xor %ecx, %ecx
2:      lea table(%rip), %rdx
        movslq (%rdx, %rcx, 4), %rsi
        add %rdx, %rsi
        inc %ecx
        jmp *%rsi
one:    add $1, %eax
        jmp 2b
two:    shl $5, %eax
        jmp 2b
three:  add $1, %eax
        ret
        .section .rodata
        .p2align 2
table:  .long one - table
        .long two - table
        .long three - table
        .section .note.GNU-stack, "", @progbits
