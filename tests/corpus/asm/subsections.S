// Subsections, repeated code, local labels, data in the text, and a jump table of differences.
//# Variants: pie no-pie static
//# Expect: 33
        .text 1
second: add table + 4(%rip), %eax
        ret
        .text 0
        .globl main
main:   xor %eax, %eax
        .rept 10
        inc %eax
        .endr
        lea table(%rip), %rcx
        movslq table + 8(%rip), %rdx
        add %rcx, %rdx
        jmp *%rdx
        .balign 4
table:  .long 1, 20, last - table
last:   add $3, %eax
        jmp second
        .section .note.GNU-stack, "", @progbits
