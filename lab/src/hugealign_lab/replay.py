"""The simulation in C, by ctypes.  C copies the data behind each pointer, or the data outlives the call."""

import ctypes
import os
from array import array
from collections.abc import Callable
from typing import Any, Self

from hugealign.io.native import loaded
from hugealign.io.progress import silent
from hugealign.io.units import printable
from hugealign_lab.geometry import Geometry, Level, Table
from hugealign_lab.placement import Keys, Pages
from hugealign_lab.tracefile import Chunk, Trace, TraceError

_SOURCE = os.path.join(os.path.dirname(__file__), "replay.c")
_P, _U32, _U64, _INT, _SIZE = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int, ctypes.c_size_t
#: The owner of a block, for counting calls: another file, its file but no function, or function n as n plus FUNCTION.
ELSEWHERE, NO_FUNCTION, FUNCTION = range(3)
#: Marks of the blocks with which the part of a thread that counts begins and ends.
BEGINS, ENDS = 1, 2


class _Call(ctypes.Structure):
    _fields_ = (("caller", _U32), ("callee", _U32), ("count", _U64))


_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "replay_new": (_P, (_U32, _P)),
    "layout_new": (_P, (_P, _P, _P)),
    "variant_new": (_P, (_P, _U32, _P, _U32, _P, ctypes.c_char_p)),
    "machine_new": (_P, (_P, _P)),
    "machine_misses": (_U64, (_P,)),
    "machine_walks": (_U64, (_P,)),
    "replay_events": (_U64, (_P,)),
    "replay_instructions": (_U64, (_P,)),
    "replay_executions": (ctypes.POINTER(_U64), (_P,)),
    "replay_count_calls": (_INT, (_P, _P, ctypes.c_char_p, _INT)),
    "replay_calls": (ctypes.POINTER(_Call), (_P,)),
    "replay_call_count": (_U32, (_P,)),
    "replay_uncounted": (_U64, (_P,)),
    "replay_part": (_INT, (_P, ctypes.c_char_p, _INT)),
    "replay_threads": (_U32, (_P,)),
    "replay_ended": (_U32, (_P,)),
    "replay_stream": (None, (_P,)),
    "replay_chunk": (_INT, (_P, _P, _SIZE, _U32, _INT)),
    "replay_free": (None, (_P,)),
}


def _address(of: "array[int]") -> int:
    return of.buffer_info()[0]


def _made(pointer: int | None) -> int:
    if pointer is None:
        raise MemoryError
    return pointer


def _shape(level: Level | None) -> "array[int]":
    small = level.small if level else Table(0, 0)
    huge = level.huge if level else None
    unified = level is not None and huge is None
    return array("I", (small.sets, small.ways, huge.sets if huge else 0, huge.ways if huge else 0, unified))


class Replay:
    """A trace, and the machines to run it through.  Use it as a context: C's memory is freed at its end."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._c = loaded(_SOURCE, _FUNCTIONS)
        instructions = array("H", (row[3] for row in trace.block_rows()))
        self._replay = _made(self._c.replay_new(len(instructions), _address(instructions)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._c.replay_free(self._replay)
        self._replay = 0

    def count_calls(self, owners: "array[int]", entries: bytes, branches: bool = False) -> None:
        """Have `run` count calls; by block, *owners* has its owner, and *entries* whether a function begins with it.

        With *branches*, `calls` also has how often two blocks of one function followed each other.
        """
        if self._c.replay_count_calls(self._replay, _address(owners), entries, branches):
            raise MemoryError

    def part(self, marks: bytes) -> None:
        """Have `run` count only a part of each thread, by the *marks* of blocks.

        It goes from the first block that BEGINS it, or from the thread's start if none does, to the next that ENDS it.
        """
        whole = not any(mark & BEGINS for mark in set(marks))
        if self._c.replay_part(self._replay, marks, whole):
            raise MemoryError

    def layout(self, pages: Pages) -> int:
        """Add a layout, and return its handle for `variant`."""
        return _made(self._c.layout_new(self._replay, _address(pages.first), _address(pages.last)))

    def variant(self, layout: int, keys: Keys) -> int:
        """Add a choice of huge windows, and return its handle for `machine`."""
        parts = len(keys.key_of), _address(keys.key_of), len(keys.numbers), _address(keys.numbers), keys.huge
        return _made(self._c.variant_new(layout, *parts))

    def machine(self, variant: int, cpu: Geometry) -> int:
        """Add a processor, and return its handle for `counts`."""
        shapes = array("I", (number for level in (cpu.first, cpu.second) for number in _shape(level)))
        return _made(self._c.machine_new(variant, _address(shapes)))

    def run(self, progress: Callable[[int], None] = silent) -> None:
        """Run the trace; *progress* gets the percentage done.  Raises TraceError if it is damaged."""
        total = max(1, self._trace.description.events)
        step = done = 0
        for chunks in self._trace.streams:
            self._c.replay_stream(self._replay)
            for chunk in chunks:
                self._chunk(chunk)
                step += 1
                done += chunk.events
                if not step % 64:
                    progress(done * 100 // total)

    def _chunk(self, chunk: Chunk) -> None:
        payload = self._trace.chunk_bytes(chunk)
        if self._c.replay_chunk(self._replay, payload, chunk.size, chunk.events, chunk.raw):
            raise TraceError(f"{printable(self._trace.path)}: is damaged: a chunk cannot be decoded")

    def counts(self, machine: int) -> tuple[int, int]:
        """Return the misses of the first level, and the page walks."""
        return int(self._c.machine_misses(machine)), int(self._c.machine_walks(machine))

    def totals(self) -> tuple[int, int, int, int]:
        """Return blocks and instructions that ran; threads that count, and those whose part ended before they did."""
        c, replay = self._c, self._replay
        return c.replay_events(replay), c.replay_instructions(replay), c.replay_threads(replay), c.replay_ended(replay)

    def executions(self) -> list[int]:
        """Return how often each block ran."""
        counts = self._c.replay_executions(self._replay)
        return list(counts[: self._trace.block_count])

    def calls(self) -> tuple[dict[tuple[int, int], int], int]:
        """Return calls by (block, first block of another function), and the number left out for lack of room."""
        calls = self._c.replay_calls(self._replay)
        rows = (calls[at] for at in range(self._c.replay_call_count(self._replay)))
        return {(row.caller, row.callee): row.count for row in rows}, int(self._c.replay_uncounted(self._replay))
