"""Decoding and simulation by their definitions, slowly: what the C of ``replay.c`` is held against."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from hugealign_lab.geometry import Geometry, Level
from hugealign_lab.placement import Keys, Pages
from hugealign_lab.replay import BEGINS, ELSEWHERE, ENDS, NO_FUNCTION
from hugealign_lab.tracefile import Chunk, Trace, TraceError

_HISTORY = 1 << 16


class _Level:
    """One level of a TLB; each set holds its pages, the least recently used first."""

    def __init__(self, level: Level) -> None:
        self._level = level
        self._sets: dict[tuple[bool, int], OrderedDict[tuple[int, bool], None]] = {}

    def touch(self, number: int, huge: bool) -> bool:
        """Return whether the page *number* is there; if the level can hold it, it is afterwards."""
        table = self._level.table(huge)
        if not table.sets:
            return False
        where = (huge and self._level.huge is not None, number % table.sets)
        entries = self._sets.setdefault(where, OrderedDict())
        if (number, huge) in entries:
            entries.move_to_end((number, huge))
            return True
        if len(entries) == table.ways:
            entries.popitem(last=False)
        entries[number, huge] = None
        return False


def simulate(streams: Iterable[Iterable[int]], pages: Pages, keys: Keys, cpu: Geometry) -> tuple[int, int | None]:
    """Return misses of the first level and page walks, None if the second is unknown, for streams of block numbers."""
    misses = walks = 0
    for stream in streams:
        first, second = _Level(cpu.first), _Level(cpu.second) if cpu.second else None
        for block in stream:
            for page in (pages.first[block], pages.last[block]):
                key = keys.key_of[page]
                number, huge = keys.numbers[key], bool(keys.huge[key])
                if not first.touch(number, huge):
                    misses += 1
                    if second and not second.touch(number, huge):
                        walks += 1
    return misses, walks if cpu.second else None


def part(ids: Sequence[int], marks: bytes) -> tuple[Sequence[int] | None, bool]:
    """Return the part of a stream that counts, None if it never begins, and whether it came to its end."""
    whole = not any(mark & BEGINS for mark in marks)
    begins = (at for at, block in enumerate(ids) if marks[block] & BEGINS)
    first = 0 if whole else next(begins, None)
    if first is None:
        return None, False
    ends = (at for at in range(first + (not whole), len(ids)) if marks[ids[at]] & ENDS)
    last = next(ends, None)
    return ids[first:last], last is not None


def calls(
    streams: Iterable[Iterable[int]], owners: Sequence[int], entries: Sequence[int], branches: bool
) -> dict[tuple[int, int], int]:
    """Return how often which block was followed by the first of another function, but for code of no function.

    With *branches*, also by any of the same function.
    """
    result: dict[tuple[int, int], int] = {}
    for stream in streams:
        own = [block for block in stream if owners[block] != NO_FUNCTION]
        for before, block in pairwise(own):
            known = ELSEWHERE not in (owners[before], owners[block])
            if known and (branches if owners[before] == owners[block] else entries[block]):
                result[before, block] = result.get((before, block), 0) + 1
    return result


def decode(trace: Trace, chunks: Sequence[Chunk]) -> Iterator[list[int]]:
    """Yield the numbers of the blocks of one stream, chunk by chunk.

    Raises TraceError.
    """
    guess = [0] * _HISTORY
    a = b = c = 0
    for chunk in chunks:
        payload = trace.chunk_bytes(chunk)
        ids: list[int] = []
        if chunk.raw:
            ids = list(memoryview(payload).cast("I"))
            if any(not 0 < number < trace.block_count for number in ids):
                raise TraceError("is damaged: it names a block that is not in its table")
            yield ids
            continue
        at = 0
        while True:
            run, at = _varint(payload, at)
            if run > chunk.events - len(ids):
                raise TraceError("is damaged: a chunk has too many events")
            for _ in range(run):
                number = guess[_context(a, b, c)]
                if not number:
                    raise TraceError("is damaged: it guesses where it cannot")
                ids.append(number)
                a, b, c = number, a, b
            if len(ids) == chunk.events:
                break
            step, at = _varint(payload, at)
            number = a + (step >> 1 ^ -(step & 1))
            if not 0 < number < trace.block_count:
                raise TraceError("is damaged: it names a block that is not in its table")
            guess[_context(a, b, c)] = number
            ids.append(number)
            a, b, c = number, a, b
        if at != len(payload):
            raise TraceError("is damaged: a chunk has bytes too many")
        yield ids


def _context(a: int, b: int, c: int) -> int:
    """Return the entry of the table that guesses what follows *a*, before that *b*, before that *c*."""
    mask = 0xFFFFFFFF
    return ((a * 0x9E3779B1 & mask) ^ (b * 0x85EBCA77 & mask) ^ (c * 0xC2B2AE3D & mask)) >> 16


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift <= 28:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise TraceError("is damaged: a number in a chunk has no end")
