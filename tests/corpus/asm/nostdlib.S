// No C library, no start files: _start, system calls, nothing else.
//# Link: -nostdlib
//# Variants: static static-pie
//# Expect: 3
//# Output: bare
        .globl _start
        .type _start, @function
_start:
        mov $1, %eax
        mov $1, %edi
        lea text(%rip), %rsi
        mov $5, %edx
        syscall
        mov $60, %eax
        mov $3, %edi
        syscall
        .size _start, . - _start
        .section .rodata
text:   .ascii "bare\n"
        .section .note.GNU-stack, "", @progbits
