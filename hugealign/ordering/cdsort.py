"""CDSort: an order of functions in which callers lie near callees, and functions that run together lie close together.

The objective is from LLVM's cache-directed sort (llvm/lib/Transforms/Utils/CodeLayout.cpp, since LLVM 17), written
from its definition: chains of functions are merged greedily, best gain first; a merge gains by shorter
distances between call and callee and by fewer misses of an imagined cache.  The result is that of
``ld.lld --call-graph-profile-sort=cdsort`` for the same graph; functions without arcs, which lld leaves at the end
whatever their heat, are chains of their own here.  ``cdsort.c`` merges the chains; tests/oracles/chains.py does the
same in Python.
"""

import ctypes
import os
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hugealign.errors import HugealignError
from hugealign.io.native import loaded

_SOURCE = os.path.join(os.path.dirname(__file__), "cdsort.c")
_P, _U32, _F = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_double
_FUNCTIONS = {"cdsort_merge": (ctypes.c_int, (_U32, _P, _P, _P, _U32, _P, _U32, _P, _P, _P, _P, _F, _F))}
_NONE = 0xFFFFFFFF
#: Limits of the C code: sums of sizes and offsets stay within 63 bits, indices of arcs and of twice the pairs within
#: 32, and no sum of products of samples reaches infinity.
_MOST_BYTES, _MOST_ARCS, _MOST_SAMPLES = 1 << 60, 1 << 30, 1e100
_DISTANCE_POWER = 0.25  # as in cdsort.c
_ABSURD = "functions cannot be sorted: implausible sizes or counts"


class Arc(NamedTuple):
    """Calls from function *caller* to *callee* (indices), *weight* times, from *offset* bytes into the caller."""

    caller: int
    callee: int
    weight: int
    offset: int | None = None  # None: the middle of the caller


@dataclass(frozen=True, slots=True)
class Chain:
    """Functions in a row: their samples, their bytes, their indices."""

    samples: float
    size: int
    nodes: list[int]


class CallGraph:
    """The functions to merge, and the arcs between each two of them.  Raises HugealignError for absurd numbers.

    *columns* are callers, callees, offsets and weights of the arcs, pair of functions by pair; *counts* is the number
    of arcs of each pair.  Arrays: a profile can have millions of arcs.
    """

    def __init__(self, sizes: Sequence[int], counts: Sequence[int], arcs: Iterable[Arc]) -> None:
        self.sizes = [max(size, 1) for size in sizes]
        columns: list[array[Any]] = [array(code) for code in "IIqd"]
        pairs = array("I")  # of each arc
        numbers: dict[int, int] = {}  # of the pairs
        entering, leaving = [0] * len(sizes), [0] * len(sizes)
        for caller, callee, weight, offset in arcs:
            if caller == callee:
                continue
            at = (self.sizes[caller] + 1) // 2 if offset is None else offset  # None: its middle
            if not -_MOST_BYTES < at < _MOST_BYTES or len(pairs) >= _MOST_ARCS or weight > _MOST_SAMPLES:
                raise HugealignError(_ABSURD)
            entering[callee] += weight
            leaving[caller] += weight
            ends = caller << 32 | callee if caller < callee else callee << 32 | caller
            pairs.append(numbers.setdefault(ends, len(numbers)))
            for column, value in zip(columns, (caller, callee, at, float(weight)), strict=True):
                column.append(value)
        by_pair = sorted(range(len(pairs)), key=pairs.__getitem__)
        self.columns = [array(column.typecode, map(column.__getitem__, by_pair)) for column in columns]
        self.counts = array("I", bytes(4 * len(numbers)))
        for pair in pairs:
            self.counts[pair] += 1
        total_size = sum(size for size, samples in zip(self.sizes, counts, strict=True) if samples > 0)
        self.far = max(total_size, 1) ** -_DISTANCE_POWER
        self.total = float(sum(counts))
        self.samples = [float(max(triple)) for triple in zip(counts, entering, leaving, strict=True)]


def cdsort(sizes: Sequence[int], counts: Sequence[int], arcs: Iterable[Arc]) -> list[int]:
    """Return the functions, as indices, in the order that serves calls best, hottest chain first.

    *sizes* are in bytes; *counts* are the samples or calls of each function.  Deterministic: equal gains and equal
    densities keep the order of the indices.  Raises HugealignError without a C compiler, and for absurd numbers.
    """
    chains = merged(CallGraph(sizes, counts, arcs))
    chains.sort(key=lambda chain: (-chain.samples / chain.size, chain.nodes[0]))
    return [node for chain in chains for node in chain.nodes]


def merged(graph: CallGraph) -> list[Chain]:
    """Return the chains of *graph*.  Raises HugealignError."""
    if not graph.counts:
        return [Chain(*node, [index]) for index, node in enumerate(zip(graph.samples, graph.sizes, strict=True))]
    if len(graph.sizes) >= _MOST_ARCS or sum(graph.sizes) >= _MOST_BYTES or sum(graph.samples) >= _MOST_SAMPLES:
        raise HugealignError(_ABSURD)
    try:
        c = loaded(_SOURCE, _FUNCTIONS)
    except HugealignError as error:
        raise HugealignError(f"functions cannot be sorted: {error}") from None
    sizes, samples = array("q", graph.sizes), array("d", graph.samples)
    following = array("I", bytes(4 * len(sizes)))
    functions: list[array[Any]] = [sizes, samples, following]
    edges = (len(graph.counts), _address(graph.counts), len(graph.columns[0]), *map(_address, graph.columns))
    if c.cdsort_merge(len(sizes), *map(_address, functions), *edges, graph.total, graph.far):
        raise MemoryError
    return [Chain(samples[first], size, _nodes(following, first)) for first, size in enumerate(sizes) if size]


def _address(of: "array[Any]") -> int:
    return of.buffer_info()[0]


def _nodes(following: "array[int]", first: int) -> list[int]:
    nodes = []
    while first != _NONE:
        nodes.append(first)
        first = following[first]
    return nodes
