"""Counts by source line, as AutoFDO has them, become counts of code, through the program's debug information.

A line is counted from the first line of its function, and lies below the calls that were inlined around it; a
discriminator tells apart several pieces of code on one line (LLVM's clang/docs/UsersManual.rst, "Sample Profile Text
Format").  llvm-symbolizer knows all of these for an address.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hugealign.code.blockmap import Block, fit, read_blocks
from hugealign.profile import tools
from hugealign.profile.model import Flow, MemoryRoom, ProfileError
from hugealign.profile.source import ProfileSource

_STEP = 4  # bytes between addresses within a block: few lines have less code
_OFFSET = 0xFFFF  # bits of a line's distance from the first (LLVM's FunctionSamples::getOffset)
_MOST = 1 << 24  # addresses: 64 MiB of code
_LINE_LIMIT = 1 << 20  # bytes of what the tool prints of an address
_SECONDS = 600  # of one run of the tool
#: Of what it says of a frame.
_FIELDS: Mapping[str, Callable[[Any], Any]] = {"FunctionName": str, "Line": int, "StartLine": int, "Discriminator": int}

Spot = tuple[int, int]  # a line, counted from the first of the function, and a discriminator


@dataclass(slots=True)
class Inlined:
    """A function, or a call that was inlined: *samples* of its own lines, and the *calls* inlined into it."""

    samples: dict[Spot, int] = field(default_factory=dict)
    calls: dict[tuple[Spot, str], "Inlined"] = field(default_factory=dict)

    def count(self, frames: Sequence[Mapping[str, Any]]) -> int:
        """Return the samples of the innermost of *frames*, which begin with it; the outermost is this function."""
        node = self
        for outer, inner in pairwise(reversed(frames)):
            known = node.calls.get((_spot(outer), inner["FunctionName"]))
            if known is None:
                return 0
            node = known
        return node.samples.get(_spot(frames[0]), 0)


class LineCounts:
    """The counts of *functions*, by name, as the lines of a profile tell them: the deeper inlined, the further in."""

    def __init__(self, room: MemoryRoom) -> None:
        self.functions: dict[str, Inlined] = {}
        self.left_out = 0
        self._room = room
        self._name = ""  # of the function that is open
        self._open: list[tuple[int, Inlined]] = []  # the indentation of what later lines can belong to

    def begin(self, name: str) -> None:
        """Begin a function; an empty *name* begins one that is left out."""
        self._name = name
        self._open = [(0, self.functions.setdefault(name, Inlined()))] if name else []
        self.left_out += not name

    def leave_out(self) -> None:
        """Leave out the function that is open."""
        if self._name:
            del self.functions[self._name]
            self.begin("")

    def line(self, indent: int, spot: Spot, samples: int) -> None:
        """Count a line of the function that is open at *indent*.  Raises ProfileError for too many."""
        if node := self._at(indent):
            self._room.take()
            node.samples[spot] = node.samples.get(spot, 0) + samples

    def call(self, indent: int, spot: Spot, callee: str) -> None:
        """Begin a call that was inlined.  Raises ProfileError for too many."""
        if node := self._at(indent):
            self._room.take(len(callee))
            self._open.append((indent, node.calls.setdefault((spot, callee), Inlined())))

    def _at(self, indent: int) -> Inlined | None:
        while self._open and self._open[-1][0] >= indent:
            self._open.pop()
        return self._open[-1][1] if self._open else None


def place(counted: Mapping[str, Inlined], source: ProfileSource, flow: Flow) -> None:
    """Add to *flow* what the lines of functions, by name, say of their code.

    Nothing is added for functions without a map of blocks that fits, and for those whose name others have.  Raises
    ProfileError if llvm-symbolizer is not installed or fails, or if no code has a line; HugealignError if the map
    cannot be read.
    """
    functions = source.functions
    known = {name: indices[0] for name in counted if len(indices := functions.by_name.get(name, [])) == 1}
    maps = read_blocks(source.binary, {functions.starts[index] for index in known.values()})
    wanted: list[tuple[Inlined, list[Block]]] = []
    left = _MOST  # functions of a hostile file can lie on each other, and in holes
    for name, index in known.items():
        start = functions.starts[index]
        blocks = maps.get(start, [])
        size = sum(len(_within(block)) for block in blocks)
        if size <= left and fit(blocks, start, functions.sizes[index]):
            left -= size
            wanted.append((counted[name], blocks))
    addresses = (address for _, blocks in wanted for block in blocks for address in _within(block))
    any_line = False
    with contextlib.closing(_frames(source.binary, addresses)) as frames:
        for root, blocks in wanted:
            counts = []
            for block in blocks:
                found = [next(frames, []) for _ in _within(block)]
                # Without -fdebug-info-for-profiling the first line of a function is not known.
                lines = [those for those in found if those and all(one["Line"] and one["StartLine"] for one in those)]
                counts.append(max(map(root.count, lines)) if lines else None)
                any_line |= bool(lines)
            for block, times in zip(blocks, _settled(counts), strict=True):
                if times and block.size:
                    flow.run(block.address, block.address + block.size, times)
    if wanted and not any_line:
        raise ProfileError(
            "no code of its functions has a line: the program needs -gline-tables-only -fdebug-info-for-profiling"
        )


def _within(block: Block) -> range:
    return range(block.address, block.address + block.size, _STEP)


def _settled(counts: Sequence[int | None]) -> list[int]:
    """Return *counts* with blocks of no line as often as the commoner of their neighbours: they may be hot."""
    settled = [0 if count is None else count for count in counts]
    for places in (range(len(counts)), range(len(counts) - 1, -1, -1)):
        last = 0
        for at in places:
            if counts[at] is None:
                settled[at] = max(settled[at], last)
            last = settled[at]
    return settled


def _spot(frame: Mapping[str, Any]) -> Spot:
    return (frame["Line"] - frame["StartLine"]) & _OFFSET, _base(frame["Discriminator"])


def _base(discriminator: int) -> int:
    """Return the part that the source gives a discriminator (LLVM's DILocation, getBaseDiscriminator)."""
    if discriminator & 1:
        return 0
    plain = discriminator >> 1
    return (plain >> 1 & 0xFE0) | (plain & 0x1F) if plain & 0x20 else plain & 0x1F


def _frames(binary: str, addresses: Iterable[int]) -> Generator[list[dict[str, Any]]]:
    """Yield for each address the functions that it lies in, innermost first.  Raises ProfileError."""
    tool = tools.versions("llvm-symbolizer", package="llvm")[0]
    with tempfile.TemporaryFile("w+") as asked:
        asked.writelines(f"{address:#x}\n" for address in addresses)
        asked.flush()
        os.lseek(asked.fileno(), 0, os.SEEK_SET)
        words = [tool, f"--obj={binary}", "--output-style=JSON", "--inlines", "--functions=linkage", "--no-demangle"]
        with tools.output(words, _SECONDS, stdin=asked.fileno()) as stream:
            while line := stream.readline(_LINE_LIMIT):
                try:
                    found = [
                        {key: kind(frame[key]) for key, kind in _FIELDS.items()} for frame in json.loads(line)["Symbol"]
                    ]
                except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                    raise ProfileError(f"{os.path.basename(tool)} prints what is not known here") from None
                yield found
