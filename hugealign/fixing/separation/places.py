"""Where a file holds addresses: words of eight bytes, by the distance that is added to each."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from itertools import islice
from operator import lt, sub

from hugealign.diagnosis.refusal import RefusalError


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
    if all(map(lt, numbers, islice(numbers, 1, None))):
        return numbers
    parts: dict[int, array[int]] = {}
    for number in numbers:
        parts.setdefault(number >> 22, array("Q")).append(number)
    ordered = array("Q")
    for key in sorted(parts):
        ordered.extend(sorted(set(parts.pop(key))))
    return ordered
