"""Counts by source line, as AutoFDO has them, become counts of code, through the program's debug information.

A line is counted from the first line of its function, and lies below the calls that were inlined around it; a
discriminator tells apart several pieces of code on one line (LLVM's clang/docs/UsersManual.rst, "Sample Profile Text
Format").  llvm-symbolizer knows all of these for an address.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hugealign.elf.blockmap import Block, read_blocks
from hugealign.profile import tools
from hugealign.profile.model import Flow, MemoryRoom, ProfileError
from hugealign.profile.source import ProfileSource

_STEP = 4  # bytes between addresses within a block: few lines have less code
_OFFSET = 0xFFFF  # bits of a line's distance from the first (LLVM's FunctionSamples::getOffset)
_LINE_LIMIT = 1 << 20  # bytes of what the tool prints of an address
_SECONDS = 600  # of one run of the tool

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
            known = node.calls.get((_spot(outer), str(inner["FunctionName"])))
            if known is None:
                return 0
            node = known
        return node.samples.get(_spot(frames[0]), 0)


class LineCounts:
    """The counts of *functions*, by name, as the lines of a profile tell them: the deeper inlined, the further in."""

    def __init__(self, room: MemoryRoom) -> None:
        self.functions: dict[str, Inlined] = {}
        self._room = room
        self._open: list[tuple[int, Inlined]] = []  # the indentation of what later lines can belong to

    def begin(self, name: str) -> None:
        """Begin a function; an empty *name* begins one that is left out."""
        self._open = [(0, self.functions.setdefault(name, Inlined()))] if name else []

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

    Nothing is added for functions without a map of blocks, and for those whose name others have.  Raises ProfileError
    if llvm-symbolizer is not installed or fails, HugealignError if the map cannot be read.
    """
    functions = source.functions
    known = {name: indices[0] for name in counted if len(indices := functions.by_name.get(name, [])) == 1}
    maps = read_blocks(source.binary, {functions.starts[index] for index in known.values()})
    wanted: list[tuple[Inlined, list[Block]]] = []
    left = functions.image.file_size  # blocks of a hostile file can be of any size
    for name, index in known.items():
        blocks = maps.get(functions.starts[index], [])
        left -= sum(block.size for block in blocks)
        if left >= 0:
            wanted.append((counted[name], blocks))
    addresses = (address for _, blocks in wanted for block in blocks for address in _within(block))
    with contextlib.closing(_frames(source.binary, addresses)) as frames:
        for root, blocks in wanted:
            counts = []
            for block in blocks:
                found = [next(frames, []) for _ in _within(block)]
                lines = [those for those in found if those and all(frame["Line"] > 0 for frame in those)]
                counts.append(max(map(root.count, lines)) if lines else None)
            for block, times in zip(blocks, _settled(counts), strict=True):
                if times:
                    flow.run(block.address, block.address + block.size, times)


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
    return (frame["Line"] - frame["StartLine"]) & _OFFSET, _base(frame.get("Discriminator", 0))


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
        words = [tool, f"--obj={binary}", "--output-style=JSON", "--inlines", "--functions=linkage"]
        with tools.output(words, _SECONDS, stdin=asked.fileno()) as stream:
            while line := stream.readline(_LINE_LIMIT):
                try:
                    found = json.loads(line)["Symbol"]
                    yield [
                        {key: frame[key] for key in ("FunctionName", "Line", "StartLine", "Discriminator")}
                        for frame in found
                    ]
                except (ValueError, KeyError, TypeError, RecursionError):
                    raise ProfileError(f"{os.path.basename(tool)} prints what is not known here") from None
