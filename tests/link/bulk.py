"""Bulk text for link tests, assembled in a blink: functions of 1 KiB that really run."""

from pathlib import Path

from tests.support import run

FUNCTIONS = 3000
LARGE = 4500  # of them, of which sh/shim.sh starts the link
#: A C program that runs the bulk.
MAIN = "unsigned big_sum(void); int main(void) { return big_sum() != 3000u * 2999u / 2u; }\n"
#: The same for bulk of any size.
MAIN_OF_ANY = "unsigned big_sum(void); int main(void) { return big_sum() == 0; }\n"


def bulk_source(functions: int = FUNCTIONS) -> str:
    """Assembly of *functions* functions of 1 KiB each, and ``big_sum``, which adds up what they return."""
    return f"""
    .text
    .macro function n
    .type bulk\\n, @function
bulk\\n:
    .cfi_startproc
    mov $\\n, %eax
    jmp 1f
    .fill 1008, 1, 0x90
1:  ret
    .p2align 10, 0x90
    .cfi_endproc
    .size bulk\\n, . - bulk\\n
    .endm
    .p2align 10, 0x90
first:
    .altmacro
    .set i, 0
    .rept {functions}
    function %i
    .set i, i + 1
    .endr
    .globl big_sum
    .type big_sum, @function
big_sum:
    .cfi_startproc
    push %rbx
    .cfi_adjust_cfa_offset 8
    push %r12
    .cfi_adjust_cfa_offset 8
    push %r13
    .cfi_adjust_cfa_offset 8
    xor %ebx, %ebx
    xor %r12d, %r12d
    lea first(%rip), %r13
2:  mov %r12, %rax
    shl $10, %rax
    add %r13, %rax
    call *%rax
    add %eax, %ebx
    inc %r12
    cmp ${functions}, %r12
    jne 2b
    mov %ebx, %eax
    pop %r13
    .cfi_adjust_cfa_offset -8
    pop %r12
    .cfi_adjust_cfa_offset -8
    pop %rbx
    .cfi_adjust_cfa_offset -8
    ret
    .cfi_endproc
    .size big_sum, . - big_sum
    .section .note.GNU-stack, "", @progbits
"""


def bulk_source_aarch64(functions: int = FUNCTIONS) -> str:
    """The same for aarch64."""
    return f"""
    .text
    .macro function n
    .type bulk\\n, %function
bulk\\n:
    mov w0, #\\n
    ret
    .fill 254, 4, 0xd503201f
    .size bulk\\n, . - bulk\\n
    .endm
    .p2align 10
first:
    .altmacro
    .set i, 0
    .rept {functions}
    function %i
    .set i, i + 1
    .endr
    .globl big_sum
    .type big_sum, %function
big_sum:
    stp x29, x30, [sp, #-48]!
    stp x19, x20, [sp, #16]
    str x21, [sp, #32]
    mov w19, #0
    mov w20, #0
    adrp x21, first
    add x21, x21, :lo12:first
1:  lsl x0, x20, #10
    add x0, x21, x0
    blr x0
    add w19, w19, w0
    add w20, w20, #1
    mov w1, #{functions}
    cmp w20, w1
    b.ne 1b
    mov w0, w19
    ldr x21, [sp, #32]
    ldp x19, x20, [sp, #16]
    ldp x29, x30, [sp], #48
    ret
    .size big_sum, . - big_sum
    .section .note.GNU-stack, "", %progbits
"""


def bulk_object(directory: Path, functions: int = FUNCTIONS, compiler: str = "gcc") -> Path:
    """Assemble the bulk with *compiler* into *directory* and return the object; it is position-independent."""
    source = directory / f"bulk{functions}.s"
    source.write_text((bulk_source_aarch64 if "aarch64" in compiler else bulk_source)(functions))
    target = source.with_suffix(".o")
    run(compiler, "-c", source, "-o", target, check=True)
    return target
