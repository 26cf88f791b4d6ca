// An object without .note.GNU-stack: what the linker says about that, and the program, stay the same.
//# Variants: no-pie pie
//# Expect: 2
        .text
        .globl main
main:   mov $2, %eax
        ret
