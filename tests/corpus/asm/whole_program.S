// A program in assembly alone, with its own unwind information.
//# Variants: pie no-pie static
//# Expect: 6
//# Output: assembly
        .text
        .globl main
        .type main, @function
main:
        .cfi_startproc
        push %rbx
        .cfi_adjust_cfa_offset 8
        lea text(%rip), %rdi
        call puts@PLT
        mov value(%rip), %eax
        inc %eax
        pop %rbx
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc
        .size main, . - main
        .section .rodata.str1.1, "aMS", @progbits, 1
text:   .string "assembly"
        .data
value:  .long 5
        .section .note.GNU-stack, "", @progbits
