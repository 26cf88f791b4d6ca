"""The part of each thread of a trace that counts: from one function to another.  Pure."""

from hugealign.elf.symbols import Functions
from hugealign.errors import HugealignError
from hugealign.io.units import printable
from hugealign_lab.replay import BEGINS, ENDS
from hugealign_lab.tracefile import Trace


def marks(trace: Trace, file: int, functions: Functions, first: str | None, last: str | None) -> bytes:
    """Return the mark of each block of *trace*: whether the part that counts BEGINS or ENDS with it.

    The part begins where a thread enters the function *first* of file number *file*, and ends where the thread then
    enters *last*; None leaves that end open.  Raises HugealignError if there is no such function, or it never ran.
    """
    result = bytearray(trace.block_count)
    for name, mark in ((first, BEGINS), (last, ENDS)):
        if name is None:
            continue
        starts = {functions.starts[index] for index in functions.by_name.get(name, ())}
        if not starts:
            raise HugealignError(f"no function {printable(name)}; a name as `nm` prints it")
        ran = [at for at, row in enumerate(trace.block_rows()) if row[1] == file and row[0] in starts]
        if not ran:
            raise HugealignError(f"{printable(name)} never ran in this trace")
        for at in ran:
            result[at] |= mark
    return bytes(result)
