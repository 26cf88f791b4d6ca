"""Where a function can begin: at a multiple of the alignment that the compiler gave it.  Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence

from hugealign.elf.symbols import Functions
from hugealign.elf.windows import align_up
from hugealign.wrapper.block_lists import ALIGNMENT


def alignment(functions: Functions, *, divided: bool = False) -> int:
    """Return the alignment that the compiler gave functions: most have it, and more than by chance (half lie on 2).

    If they will be *divided*, clang compiles them again and aligns them to at most `ALIGNMENT`.
    """
    rests = Counter(
        start % 16
        for index, (start, name) in enumerate(zip(functions.starts, functions.names, strict=True))
        if ".cold" not in name or functions.cold_part_of(index) is None
    )
    for candidate in (16, 8, 4, 2):
        if sum(rests[rest] for rest in range(0, 16, candidate)) * 8 > rests.total() * 5:
            return min(candidate, ALIGNMENT) if divided else candidate
    return 1


def place(starts: Sequence[int], sizes: Sequence[int], order: Iterable[int], begin: int, most: int) -> list[int]:
    """Return where each function of *order* begins if they follow one another from the address *begin* on.

    *starts* are their present addresses: each function keeps the alignment that it has there, up to *most*.
    """
    placed = []
    for index in order:
        start = starts[index]
        own = start & -start
        begin = align_up(begin, own if 0 < own < most else most)
        placed.append(begin)
        begin += sizes[index]
    return placed
