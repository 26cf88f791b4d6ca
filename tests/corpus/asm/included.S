// A file included as bytes: the source itself.
//# Variants: static pie
//# Expect: 47
        .text
        .globl main
main:   movzbl bytes(%rip), %eax
        ret
        .section .rodata
bytes:  .incbin __FILE__
        .section .note.GNU-stack, "", @progbits
