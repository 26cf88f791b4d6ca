"""Links of one program that differ in where its code lies: some bytes in front of its first function.

That alone can change the time of a program by some per cent, so a build is judged by several of them.  Pure.
"""

#: Bytes in front of the first function: of a cache line, in steps of the alignment of functions.
PLACEMENTS = (0, 16, 32, 48)


def source(size: int) -> str:
    """Return assembly of the function ``pad`` of *size* bytes, in a section of its own."""
    lines = (
        '.section .text.pad,"ax",@progbits',
        ".globl pad",
        ".type pad,@function",
        "pad:",
        f".fill {size},1,0x90",
        f".size pad,{size}",
        '.section .note.GNU-stack,"",@progbits',
    )
    return "".join(f"{line}\n" for line in lines)


def padded(order: str) -> str:
    """Return the text of an order file with ``pad`` in front."""
    lines = order.splitlines(keepends=True)
    lines.insert(next(at for at, line in enumerate(lines) if not line.startswith("#")), "pad\tkind=fill\n")
    return "".join(lines)
