// Numbered labels, macros with counters, repeated blocks and expressions of the assembler.
//# Variants: pie static no-pie
//# Expect: 46
        .macro add_all first, rest:vararg
        add $\first, %eax
        .ifnb \rest
        add_all \rest
        .endif
        .endm
        .globl main
        .text
main:   xor %eax, %eax
        add_all 1, 2, 3
        mov $5, %ecx
1:      add $1, %eax
        dec %ecx
        jnz 1b
        .irp n, 10, 20
        add $\n, %eax
        .endr
        jmp 1f
        .fill 300, 1, 0xcc
1:      add $(end - start), %eax
        ret
        .section .rodata
start:  .rept 5
        .byte 1
        .endr
end:
        .section .note.GNU-stack, "", @progbits
