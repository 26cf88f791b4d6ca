"""An order of a function's blocks in which most jumps fall through or are short: ext-TSP.

The objective and the greedy merging of chains are those of Newell and Pupyrev, "Improved Basic Block Reordering", IEEE
Transactions on Computers 69 (2020), arXiv:1809.04676, written from the paper: a jump to the next block is worth 1, one
of up to 1024 bytes forward or 640 backward at most a tenth, and less the farther it goes.  All arithmetic is in whole
numbers, so the result is the same everywhere.  ``exttsp.c`` does it; tests/oracles/exttsp.py does the same in Python.
"""

import ctypes
import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hugealign.errors import HugealignError
from hugealign.io.native import loaded

_MOST_WEIGHT = 1 << 40  # of all jumps of a function, and of its blocks: a score then has 63 bits

_SOURCE = os.path.join(os.path.dirname(__file__), "exttsp.c")
_P = ctypes.c_void_p
_FUNCTIONS = {"exttsp_orders": (ctypes.c_int, (ctypes.c_uint32, _P, _P, _P, _P, _P, _P, _P, _P))}


@dataclass(frozen=True, slots=True)
class FlowGraph:
    """The blocks of one function, the entry first: *sizes* in bytes, *counts* of runs, *jumps* from one to another."""

    sizes: Sequence[int]
    counts: Sequence[int]
    jumps: Mapping[tuple[int, int], int]

    def scaled(self) -> tuple[list[int], list[tuple[int, int, int]]]:
        """Return counts, and sorted jumps, both small enough to multiply; without jumps of a block to itself."""
        jumps = [
            (block, other, weight) for (block, other), weight in sorted(self.jumps.items()) if block != other and weight
        ]
        total = max(sum(weight for _, _, weight in jumps), sum(self.counts))
        shift = max(0, total.bit_length() - _MOST_WEIGHT.bit_length() + 1)
        most = [(block, other, max(weight >> shift, 1)) for block, other, weight in jumps]
        return [count >> shift for count in self.counts], most


def orders(graphs: Sequence[FlowGraph]) -> list[list[int]]:
    """Return the blocks of each of *graphs* in order, the entry first.  Raises HugealignError without a C compiler."""
    if not graphs:
        return []
    try:
        c = loaded(_SOURCE, _FUNCTIONS)
    except HugealignError as error:
        raise HugealignError(f"blocks cannot be sorted: {error}") from None
    blocks = array("I", (len(graph.sizes) for graph in graphs))
    sizes, counts, weights = array("q"), array("q"), array("q")
    jumps, ones, others = array("I"), array("I"), array("I")
    for graph in graphs:
        runs, edges = graph.scaled()
        sizes.extend(graph.sizes)
        counts.extend(runs)
        jumps.append(len(edges))
        for block, other, weight in edges:
            ones.append(block)
            others.append(other)
            weights.append(weight)
    ordered = array("I", bytes(4 * len(sizes)))
    columns: tuple[array[Any], ...] = (blocks, jumps, sizes, counts, ones, others, weights, ordered)
    if c.exttsp_orders(len(blocks), *(column.buffer_info()[0] for column in columns)):
        raise MemoryError
    rest: Iterator[int] = iter(ordered)
    return [list(islice(rest, count)) for count in blocks]
