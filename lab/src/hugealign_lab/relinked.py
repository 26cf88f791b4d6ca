"""The addresses of a trace's blocks in another link of the same objects, where functions are found by name.

Linkers move functions but do not change them.  So a trace of one link tells what any other would do, without running
it: another linker, other options, another order.  If a tool rewrites code inside functions (BOLT, another link-time
optimisation), trace its output.
"""

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from hugealign.elf.image import SHF_EXECINSTR, Image, Section
from hugealign.elf.symbols import Functions, read_functions
from hugealign.errors import HugealignError, cause
from hugealign_lab.placement import WINDOW, Placement, original
from hugealign_lab.tracefile import Trace

_LEAST = 10  # functions that ran, per one that may differ there


def moves(before: Functions, after: Functions) -> list[int | None]:
    """Return the addresses in *after* of the functions of *before*, None for one that is not there.

    Local functions of one name are distinguished by their size and source file; the others are taken in the order of
    the symbol table.  A function of another size is another function.
    """
    addresses: list[int | None] = [None] * len(before)
    taken: set[int] = set()
    for by_file in (True, False):
        there: dict[tuple[str, int, str], deque[int]] = {}
        for name, indices in after.by_name.items():
            for index in indices:
                key = name, after.sizes[index], after.files[index] if by_file else ""
                there.setdefault(key, deque()).append(index)
        for index, name in enumerate(before.names):
            if addresses[index] is None and name:
                same = there.get((name, before.sizes[index], before.files[index] if by_file else ""), deque())
                while same and same[0] in taken:
                    same.popleft()
                if same:
                    taken.add(same[0])
                    addresses[index] = after.starts[same.popleft()]
    return addresses


def relinked(
    trace: Trace, file: int, name: str, before: Functions, after: Functions, moved_to: Sequence[int | None]
) -> Placement:
    """Return the placement of *file*, with the functions *before*, in the link with the functions *after*.

    *moved_to* is the result of `moves` for the two.  Sections of code that hold no functions (``.init``, ``.plt``) keep
    their contents and move as a whole.  Raises HugealignError if more than a tenth of the functions that ran are not
    there: then it is a link of something else.
    """
    segments = after.image.text_segments
    if not segments:
        raise HugealignError("has no text")
    there = min(s.p_vaddr for s in segments)
    placed = original(trace, file, name)  # refuses a file without text
    here = min(s.p_vaddr for s in trace.description.files[file].segments if s.executable and s.p_memsz)
    addresses = array("Q", placed.addresses)
    sections = _sections(before.image, after.image)
    ran: set[int] = set()
    for block, (address, number, _, _) in enumerate(trace.block_rows()):
        if number != file:
            continue
        piece = next((piece for piece in sections if piece.start <= address < piece.end), None)
        if piece is not None:
            addresses[block] += piece.to + min(address - piece.start, piece.room) - address
            continue
        # Code between two functions stays with the first, as a linker leaves it.
        index = bisect_right(before.starts, address) - 1
        ran.add(index)
        start = moved_to[index] if index >= 0 else None
        addresses[block] += there - here if start is None else start - before.starts[index]
    missing = sum(index < 0 or moved_to[index] is None for index in ran)
    if missing * _LEAST > len(ran):
        lost = f"{missing} of {len(ran)} functions that ran are not in it as they were"
        raise HugealignError(f"is not a link of the same objects: {lost}")
    windows = -(-max(s.p_vaddr + s.p_memsz for s in segments) // WINDOW) - there // WINDOW
    return Placement(name, addresses, placed.first + there // WINDOW - here // WINDOW, windows)


def relinked_file(trace: Trace, file: int, name: str, binary: str, other: str) -> Placement:
    """Return the layout of the file at *other*, a link of the objects of *binary*, which was traced.

    Raises HugealignError.
    """
    try:
        before, after = read_functions(binary), read_functions(other)
    except (OSError, ValueError) as error:
        raise HugealignError(f"cannot be read: {cause(error)}") from None
    return relinked(trace, file, name, before, after, moves(before, after))


@dataclass(frozen=True, slots=True)
class _Piece:
    """A section without functions: from *start* to *end*, now at *to*, where it is *room* + 1 bytes long."""

    start: int
    end: int
    to: int
    room: int


def _sections(before: Image, after: Image) -> list[_Piece]:
    """Return the sections of both; kinds of PLT that only one of the linkers makes stand for each other."""
    there = {s.name: s for s in after.sections if _without_functions(s)}
    plt = next((s for name, s in there.items() if name.startswith(".plt")), None)
    pieces = []
    for section in before.sections:
        if not _without_functions(section):
            continue
        other = there.get(section.name) or (plt if section.name.startswith(".plt") else None)
        if other is not None:
            end = section.sh_addr + section.sh_size
            pieces.append(_Piece(section.sh_addr, end, other.sh_addr, other.sh_size - 1))
    return pieces


def _without_functions(section: Section) -> bool:
    executable = bool(section.sh_flags & SHF_EXECINSTR) and section.sh_size > 0
    return executable and section.name.startswith((".init", ".fini", ".plt", ".iplt"))
