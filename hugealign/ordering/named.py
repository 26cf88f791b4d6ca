"""The functions that an order file names, in its order."""

from hugealign import orderfile
from hugealign.elf.symbols import Functions
from hugealign.errors import HugealignError, UsageError
from hugealign.io.units import parse_page_size, printable
from hugealign.orderfile import OrderFile
from hugealign.settings import DEFAULT_PAGE_SIZE

_LEAST = 2  # one name in this many has to be in the file


def indices(order: OrderFile, path: str, functions: Functions, binary: str) -> list[int]:
    """Return the *functions* of *binary*, as indices, that the *order* of the file at *path* names.

    Raises HugealignError if fewer than half of the names are there: the order is for another program or build.
    """
    placed = [_indices(functions, entry) for entry in order.entries]
    matched = sum(map(bool, placed))
    if not order.entries:
        raise HugealignError(f"{printable(path)}: names no functions")
    if matched * _LEAST < len(placed):
        there = f"{matched} of its {len(placed)} functions are in {printable(binary)}"
        raise HugealignError(f"{printable(path)}: is for another build: {there}")
    return [index for of_entry in placed for index in of_entry]


def windows(order: OrderFile) -> int | None:
    """Return how many windows an order file wants huge; None if it does not say."""
    return int(order.header["windows"]) if "windows" in order.header else None


def page_size(order: OrderFile, path: str) -> int:
    """Return the size of a window of the order file at *path*, in bytes.  Raises HugealignError."""
    try:
        return parse_page_size(order.header.get("page-size", DEFAULT_PAGE_SIZE), "page-size")
    except UsageError as error:
        raise HugealignError(f"{printable(path)}: {error}") from None


def _indices(functions: Functions, entry: orderfile.Entry) -> list[int]:
    """Return the functions of an entry; a local name without a file means all functions of that name, as in lld."""
    if not entry.name:
        index = functions.at(entry.address)
        return [index] if index >= 0 and functions.starts[index] == entry.address else []
    named = functions.by_name.get(entry.name, [])
    if entry.file:
        return [index for index in named if functions.files[index] == entry.file] or named
    return named
