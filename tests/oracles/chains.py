"""What ordering/cdsort.c does, in Python: its oracle, and what unit tests use instead, which start no compiler."""

import heapq
import itertools
from collections.abc import Iterable

from hugealign.ordering.cdsort import CallGraph, Chain

#: The cache that the objective imagines: entries, and bytes of each.  Not a TLB: with windows of 2 MiB for entries the
#: term is zero everywhere.  cdsort.c has the same numbers.
_ENTRIES, _ENTRY_SIZE = 16, 2048
_DISTANCE_POWER = 0.25
_MAX_NODES = 128  # functions in one chain: bounds the cost of a merge
_FREQUENCY_SCALE = 0.25
_EPSILON = 1e-8  # gains that differ by less are equal


def merged(graph: CallGraph) -> list[Chain]:
    """Return the chains of *graph*, which are those of C, to the last bit."""
    return _Sorter(graph).chains()


class _Sorter:
    """The chains during the merge.  A chain is named by the function that it began with."""

    def __init__(self, graph: CallGraph) -> None:
        count = len(graph.sizes)
        self.size, self.samples = graph.sizes[:], graph.samples[:]  # of each chain, at first of each function
        self.far, self.total = graph.far, graph.total
        self.nodes = [[index] for index in range(count)]
        self.chain = list(range(count))  # of each function
        self.address = [0] * count  # of each function within its chain
        # The arcs between two chains, in the entries of both.
        self.between: list[dict[int, list[tuple[int, int, int, float]]]] = [{} for _ in range(count)]
        rows = zip(*graph.columns, strict=True)
        for number in graph.counts:
            arcs = list(itertools.islice(rows, number))
            one, other = arcs[0][:2]
            self.between[one][other] = self.between[other][one] = arcs
        self.cost = [self._misses(*pair) for pair in zip(self.samples, self.size, strict=True)]
        self.version = [0] * count
        self.heap: list[tuple[float, int, int, int, int]] = []

    def chains(self) -> list[Chain]:
        for chain, neighbours in enumerate(self.between):
            self._consider(chain, [other for other in neighbours if chain < other])
        while self.heap:
            _, first, second, *versions = heapq.heappop(self.heap)
            if versions == [self.version[first], self.version[second]]:
                self._merge(first, second)
        return [Chain(*parts) for parts in zip(self.samples, self.size, self.nodes, strict=True) if parts[-1]]

    def _misses(self, samples: float, size: int) -> float:
        """Return how often a chain is not in the cache when it is needed."""
        density = samples / size * _ENTRY_SIZE
        return 0.0 if density >= self.total else samples * (1.0 - density / self.total) ** _ENTRIES

    def _consider(self, chain: int, others: Iterable[int]) -> None:
        """Push onto the heap the better way to join *chain* and each of *others*, where there is a gain.

        One loop without calls, `_misses` written out: without a C compiler it runs a million times for 50,000 arcs.
        """
        address, member, nodes, version, heap = self.address, self.chain, self.nodes, self.version, self.heap
        sizes, samples, costs, total, far = self.size, self.samples, self.cost, self.total, self.far
        between, room = self.between[chain], _MAX_NODES - len(nodes[chain])
        for other in others:
            if len(nodes[other]) > room:
                continue
            one, two = (chain, other) if chain < other else (other, chain)
            size_one, size_two = sizes[one], sizes[two]
            first = second = 0.0
            for caller, callee, offset, weight in between[other]:
                distance = address[caller] + offset - address[callee]
                if member[caller] == one:
                    ahead, behind = distance - size_one, distance + size_two
                else:
                    ahead, behind = distance + size_one, distance - size_two
                first += weight * ((abs(ahead) or 0.1) ** -_DISTANCE_POWER - far)
                second += weight * ((abs(behind) or 0.1) ** -_DISTANCE_POWER - far)
            both = samples[one] + samples[two]
            density = both / (size_one + size_two) * _ENTRY_SIZE
            together = 0.0 if density >= total else both * (1.0 - density / total) ** _ENTRIES
            saved = _FREQUENCY_SCALE * (costs[one] + costs[two] - together)
            least = min(size_two, size_one)
            # A loss is not divided, but it is never taken either.
            first, second = (first + saved) / least, (second + saved) / least
            if first <= _EPSILON and second <= _EPSILON:
                continue
            if second > first + _EPSILON:
                one, two, first = two, one, second
            heapq.heappush(heap, (-first, one, two, version[one], version[two]))

    def _merge(self, first: int, second: int) -> None:
        """Append the chain *second* to *first*."""
        shift = self.size[first]
        for node in self.nodes[second]:
            self.address[node] += shift
            self.chain[node] = first
        self.nodes[first] += self.nodes[second]
        self.nodes[second] = []
        self.size[first] += self.size[second]
        self.samples[first] += self.samples[second]
        self.cost[first] = self._misses(self.samples[first], self.size[first])
        self.version[first] += 1
        self.version[second] += 1
        neighbours = self.between[first]
        del neighbours[second], self.between[second][first]
        for other, arcs in self.between[second].items():
            del self.between[other][second]
            neighbours[other] = self.between[other][first] = neighbours.get(other, []) + arcs
        self.between[second] = {}
        self._consider(first, neighbours)
