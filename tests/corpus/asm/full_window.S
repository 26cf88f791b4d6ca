// Text that is a little less or more than whole windows by itself.
//# Variants: no-pie pie static
//# Expect: 4
        .text
        .globl main
main:   mov $4, %eax
        jmp last
        .fill 0x1ff000, 1, 0xcc
last:   ret
        .section .zz_text, "ax", @progbits
        .fill 0x1000, 1, 0xcc
        .section .note.GNU-stack, "", @progbits
