"""Where a file holds addresses: words of eight bytes, by the distance that is added to each."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from operator import lt, sub

from hugealign.diagnosis.refusal import RefusalError

_BLOCK, _SAMPLE = 1 << 16, 1 << 10  # numbers that are sorted together; one in so many bounds a merged part


class Words:
    """The offsets, in the old file, of the words to which each distance is added: ascending once `sort` was called."""

    def __init__(self) -> None:
        self.places: dict[int, array[int]] = {}
        #: The new contents of compressed sections, by name: their words have no place in the file.
        self.replaced: dict[str, memoryview] = {}

    def add(self, distance: int, places: Iterable[int]) -> None:
        """Add the *places* of words that change by *distance*."""
        if distance:
            self.places.setdefault(distance, array("Q")).extend(places)

    def sort(self) -> None:
        """Put all places in order, each once.  Raises RefusalError if two of them overlap."""
        for distance, places in self.places.items():
            ordered = self.places[distance] = ascending(places)
            if min(map(sub, islice(ordered, 1, None), ordered), default=8) < 8:
                raise RefusalError("fix.address-tables")
        fewer, more = sorted([*self.places.values(), array("Q"), array("Q")], key=len)[-2:]
        for place in fewer:
            i = bisect_right(more, place)
            if (i and place - more[i - 1] < 8) or (i < len(more) and more[i] - place < 8):
                raise RefusalError("fix.address-tables")


def ascending(numbers: "array[int]") -> "array[int]":
    """Return *numbers* in order, each once.  A list of all of them would take five times the memory."""
    if _rises(numbers):
        return numbers
    blocks = [array("Q", sorted(numbers[at : at + _BLOCK])) for at in range(0, len(numbers), _BLOCK)]
    samples = sorted(chain.from_iterable(block[::_SAMPLE] for block in blocks))
    ordered = array("Q")
    taken = [0] * len(blocks)
    for bound in (*samples[_BLOCK // _SAMPLE :: _BLOCK // _SAMPLE], 1 << 64):
        part: list[int] = []
        for i, block in enumerate(blocks):
            first, taken[i] = taken[i], bisect_left(block, bound, taken[i])
            part += block[first : taken[i]]
        part.sort()
        ordered.extend(part if _rises(part) else sorted(set(part)))
    return ordered


def _rises(numbers: Sequence[int]) -> bool:
    return all(map(lt, numbers, islice(numbers, 1, None)))
