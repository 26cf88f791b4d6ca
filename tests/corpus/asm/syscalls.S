// No C library and no stack to speak of: write and exit by system calls alone, data by its address.
//# Link: -nostdlib -nostartfiles
//# Variants: static
//# Expect: 3
//# Output: bare
        .globl _start
        .text
_start: mov $1, %eax
        mov $1, %edi
        lea text(%rip), %rsi
        mov $5, %edx
        syscall
        mov count(%rip), %edi
        mov $60, %eax
        syscall
        hlt
        .section .rodata
text:   .ascii "bare\n"
        .data
count:  .long 3
        .section .note.GNU-stack, "", @progbits
