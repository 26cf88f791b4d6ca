// -N: text and data share one segment, which hugealign leaves alone.
//# NoLayout: the user asks for one segment
//# Link: -nostdlib -Wl,-N
//# SkipLinker: gold (gold 1.16 ends in an internal error)
//# Variants: static
//# Expect: 6
//# SkipLinker: wild (wild 0.10 knows no -N)
        .globl _start
_start: incl value(%rip)
        mov $60, %eax
        mov value(%rip), %edi
        syscall
        .data
value:  .long 5
        .section .note.GNU-stack, "", @progbits
