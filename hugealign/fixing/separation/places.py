"""Where a file holds addresses: words of eight bytes, by the distance that is added to each."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import lt, sub

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.wordarrays import rise

_BLOCK, _SAMPLE = 1 << 16, 1 << 10  # numbers that are sorted together; one in so many bounds a merged part


class Words:
    """The offsets, in the old file, of the words to which each distance is added: ascending once `sort` was called."""

    def __init__(self) -> None:
        self.places: dict[int, array[int]] = {}
        #: The new contents of compressed sections, by name: their words have no place in the file.
        self.replaced: dict[str, memoryview] = {}
        self._parts: dict[int, list[array[int]]] = {}  # of the places, as they were added

    def add(self, distance: int, places: Iterable[int]) -> None:
        """Add the *places* of words that change by *distance*."""
        if distance:
            parts = self._parts.setdefault(distance, [array("Q")])
            part = places if isinstance(places, array) else array("Q", list(places))
            if len(parts[-1]) + len(part) > _BLOCK:
                parts.append(array("Q"))
            parts[-1] += part

    def sort(self) -> None:
        """Put all places in order, each once.  Raises RefusalError if two of them overlap."""
        for distance, parts in self._parts.items():
            ordered = self.places[distance] = array("Q")
            for places, apart in _in_order(parts):
                steps = () if apart else map(sub, islice(places, 1, None), places)
                if min(chain(steps, map(sub, places[:1], ordered[-1:])), default=8) < 8:
                    raise RefusalError("fix.address-tables")
                ordered += places
            self._parts[distance] = [ordered]
        fewer, more = sorted([*self.places.values(), array("Q"), array("Q")], key=len)[-2:]
        for place in fewer:
            i = bisect_right(more, place)
            if (i and place - more[i - 1] < 8) or (i < len(more) and more[i] - place < 8):
                raise RefusalError("fix.address-tables")


def _in_order(parts: Iterable["array[int]"]) -> Iterator[tuple["array[int]", bool]]:
    """Yield the places of all *parts* in order, each once, and whether they are known not to overlap.

    Only parts that lie between each other are sorted together.
    """
    groups: list[list[tuple[array[int], bool]]] = []
    end = -1
    known = [(part, True) if rise(part, 8) else (ascending(part), False) for part in parts if part]
    for part, apart in sorted(known, key=lambda part: part[0][0]):
        if part[0] > end:
            groups.append([])
        groups[-1].append((part, apart))
        end = max(end, part[-1])
    for group in groups:
        yield group[0] if len(group) == 1 else (ascending(array("Q", b"".join(part for part, _ in group))), False)


def ascending(numbers: "array[int]") -> "array[int]":
    """Return *numbers* in order, each once.  A list of all of them would take five times the memory."""
    if rise(numbers, 1) or _rises(numbers):
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
        ordered.fromlist(part if _rises(part) else sorted(set(part)))
    return ordered


def _rises(numbers: Sequence[int]) -> bool:
    return all(map(lt, numbers, islice(numbers, 1, None)))
