/* SPDX-License-Identifier: Apache-2.0 */
/* The pad object: one trap instruction in a section of its own, which the scripts grow to the window's end.
 * The shim makes the same object itself (hugealign/elf/objectfile.py); a test compares the two. */
    .section .hugealign.pad, "ax", %progbits
    .globl  __hugealign_pad
    .hidden __hugealign_pad
    .type   __hugealign_pad, %object
__hugealign_pad:
#if defined(__x86_64__)
    int3
#elif defined(__aarch64__)
    udf     #0
#endif
    .size   __hugealign_pad, . - __hugealign_pad
    .section .note.GNU-stack, "", %progbits

/* Linkers keep only those features that every input claims; so claim them all: IBT, SHSTK, LAM_U48, LAM_U57;
 * BTI, PAC, GCS. */
    .section .note.gnu.property, "a", %note
    .p2align 3
    .long   4, 16, 5
    .asciz  "GNU"
#if defined(__x86_64__)
    .long   0xc0000002, 4, 15, 0
#elif defined(__aarch64__)
    .long   0xc0000000, 4, 7, 0
#endif
