"""Reading an order for a layout: which functions of a file come first."""

import os

from hugealign import orderfile
from hugealign.elf.symbols import Functions, read_functions
from hugealign.errors import HugealignError
from hugealign.units import printable

_LIMIT = 1 << 28  # bytes of an order file
_LEAST = 2  # one of so many names has to be there


def read_order(order: str, binary: str) -> tuple[Functions, list[int]]:
    """Return the functions of *binary* and the indices of those that the file *order* names, in its order.

    The file is of the form ``hugealign.order/1``, or one symbol per line with comments after ``#``, as lld takes it.
    Raises HugealignError; also if fewer than half of the names are there: the order is for something else.
    """
    try:
        with open(order, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as stream:
            entries = _entries(stream.read(_LIMIT + 1))
    except OSError as error:
        raise HugealignError(f"{printable(order)}: {error.strerror}") from None
    except HugealignError as error:
        raise HugealignError(f"{printable(order)}: {error}") from None
    functions = read_functions(binary)
    indices, found = [], 0
    for entry in entries:
        placed = _indices(functions, entry)
        found += bool(placed)
        indices += placed
    if found * _LEAST < len(entries):
        there = f"{found} of its {len(entries)} functions are in {printable(binary)}"
        raise HugealignError(f"{printable(order)}: is for another build: {there}")
    return functions, indices


def _entries(raw: bytes) -> list[orderfile.Entry]:
    if len(raw) > _LIMIT:
        raise HugealignError("too large for an order file")
    lines = [line.rstrip(b"\r") for line in raw.split(b"\n")]
    if lines[0].rstrip() == orderfile.MAGIC.encode():
        entries = list(orderfile.parse(lines).entries)
    else:
        entries = [orderfile.Entry(_symbol(line)) for line in lines if _symbol(line)]
    if not entries or b"\0" in raw:
        raise HugealignError("names no functions")
    return entries


def _symbol(line: bytes) -> str:
    return line.split(b"#", 1)[0].strip().decode("utf-8", "surrogateescape")


def _indices(functions: Functions, entry: orderfile.Entry) -> list[int]:
    """Return the functions that an entry stands for: of a local name without a file, all that have it, as lld does."""
    if not entry.name:
        index = functions.at(entry.address)
        return [index] if index >= 0 and functions.starts[index] == entry.address else []
    named = functions.by_name.get(entry.name, [])
    if entry.file:
        return [index for index in named if functions.files[index] == entry.file] or named
    return named
