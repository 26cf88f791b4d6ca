// Functions aligned to a page, to a window, and code of one window and more between.
//# Variants: pie no-pie static
//# Expect: 12
//# SkipLinker: wild (wild 0.10 takes no alignment of a window: Unsupported alignment 0x200000)
        .text
        .globl main
main:   sub $8, %rsp
        call page
        call window
        call page_address
        add $8, %rsp
        ret
        .p2align 12, 0xcc
page:   mov $5, %eax
        ret
        .fill 0x210000, 1, 0xcc
        .p2align 21, 0xcc
window: add $7, %eax
        ret
page_address:
        lea page(%rip), %rcx
        lea window(%rip), %rdx
        test $0xfff, %ecx
        jnz 1f
        test $0x1fffff, %edx
        jnz 1f
        ret
1:      mov $1, %eax
        ret
        .section .note.GNU-stack, "", @progbits
