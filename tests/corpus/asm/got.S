// Loads, calls and jumps through the GOT, which a linker may relax.
//# Object: OTHER
//# Variants: pie no-pie static static-pie pie+now
//# Expect: 21
#ifdef OTHER
        .globl value, function
        .hidden function
        .type function, @function
        .data
value:  .long 10
        .text
function:
        add $1, %eax
        ret
#else
        .globl main
main:   sub $8, %rsp
        mov value@GOTPCREL(%rip), %rcx
        mov (%rcx), %eax
        call *function@GOTPCREL(%rip)
        mov value@GOTPCREL(%rip), %rdx
        add (%rdx), %eax
        movq function@GOTPCREL(%rip), %rdi
        cmpq %rdi, function@GOTPCREL(%rip)
        jne 1f
        add $8, %rsp
        ret
1:      xor %eax, %eax
        add $8, %rsp
        ret
#endif
        .section .note.GNU-stack, "", @progbits
