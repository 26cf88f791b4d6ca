"""What ordering/exttsp.c does, in Python: its oracle, and what unit tests use instead, which start no compiler."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from hugealign.ordering.exttsp import FlowGraph

#: What a jump is worth: 1 is 51200, the least common multiple of 10 times either reach.  exttsp.c has the same numbers.
_FALL, _FORWARD, _FORWARD_STEP, _BACKWARD, _BACKWARD_STEP = 51200, 1024, 5, 640, 8
_MAX_CHAIN = 512  # blocks in one chain, and in a chain that may be split: both bound the cost of a merge
_MAX_SPLIT = 128
#: Chains stay apart if one is so many times as hot as the other; otherwise lukewarm code would lie among hot code.
_DENSITY_RATIO = 100


def orders(graphs: Sequence[FlowGraph]) -> list[list[int]]:
    """Return the blocks of each of *graphs* in order, as C does."""
    return [ordered(graph) for graph in graphs]


@dataclass(frozen=True, slots=True)
class _Merge:
    """A way to merge chains *a* and *b*: the blocks *nodes* of the result, and its *gain*."""

    gain: int
    a: int
    b: int
    nodes: list[int]


class _Chains:
    """The chains of one function; a merged chain keeps the lower name of its two."""

    def __init__(self, graph: FlowGraph) -> None:
        self.sizes = graph.sizes
        self.counts, self.edges = graph.scaled()
        count = len(self.sizes)
        self.out: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self.into: list[list[int]] = [[] for _ in range(count)]
        for one, other, weight in self.edges:
            self.out[one].append((other, weight))
            self.into[other].append(one)
        self.forced = self._forced()
        self.chain_of = [-1] * count
        self.nodes: dict[int, list[int]] = {}
        self._begin()
        self.scores = {name: self.score(nodes) for name, nodes in self.nodes.items()}

    def _forced(self) -> dict[int, int]:
        """Return, by block, the block that always follows it: its only successor, if that has no other predecessor."""
        return {
            item: outs[0][0]
            for item, outs in enumerate(self.out)
            if len(outs) == 1 and outs[0][0] and len(self.into[outs[0][0]]) == 1
        }

    def _begin(self) -> None:
        followers = set(self.forced.values())
        for ring in (False, True):
            for first in range(len(self.sizes)):
                if self.chain_of[first] >= 0 or (not ring and first in followers):
                    continue
                nodes, node = [], first
                while node >= 0 and self.chain_of[node] < 0:
                    self.chain_of[node] = first
                    nodes.append(node)
                    node = self.forced.get(node, -1)
                self.nodes[first] = nodes

    def score(self, nodes: Sequence[int]) -> int:
        """Return what the jumps among *nodes* are worth if these follow one another."""
        address, at = {}, 0
        for node in nodes:
            address[node] = at
            at += self.sizes[node]
        total = 0
        for node in nodes:
            for other, weight in self.out[node]:
                if other in address:
                    total += weight * _worth(address[other] - address[node] - self.sizes[node])
        return total

    def density(self, name: int) -> tuple[int, int]:
        """Return the runs and bytes of a chain; an empty block counts as one byte, to make densities comparable."""
        nodes = self.nodes[name]
        return sum(self.counts[node] for node in nodes), sum(max(self.sizes[node], 1) for node in nodes)

    def neighbours(self, name: int) -> list[int]:
        """Return the chains that the jumps of chain *name* lead to or come from."""
        result = {self.chain_of[other] for node in self.nodes[name] for other, _ in self.out[node]}
        result |= {self.chain_of[other] for node in self.nodes[name] for other in self.into[node]}
        return sorted(result - {name})

    def best(self, a: int, b: int) -> _Merge | None:
        """Return the best way to merge two chains, None if none gains."""
        (runs, size), (other_runs, other_size) = self.density(a), self.density(b)
        one, other = runs * other_size, other_runs * size
        if len(self.nodes[a]) + len(self.nodes[b]) > _MAX_CHAIN or max(one, other) > _DENSITY_RATIO * min(one, other):
            return None
        best: _Merge | None = None
        for x, y in ((a, b), (b, a)):
            for nodes in self._ways(x, y):
                if 0 in nodes[1:]:
                    continue
                gain = self.score(nodes) - self.scores[a] - self.scores[b]
                if gain > (best.gain if best else 0):
                    best = _Merge(gain, a, b, nodes)
        return best

    def _ways(self, x: int, y: int) -> Iterator[list[int]]:
        first, second = self.nodes[x], self.nodes[y]
        yield first + second
        for split in range(1, len(first) if len(first) <= _MAX_SPLIT else 0):
            before, behind = first[split - 1], first[split]
            if self.forced.get(before) == behind or not (self._touches(before, y) or self._touches(behind, y)):
                continue
            x1, x2 = first[:split], first[split:]
            yield x1 + second + x2
            yield second + x2 + x1
            yield x2 + x1 + second

    def _touches(self, node: int, chain: int) -> bool:
        return any(self.chain_of[other] == chain for other, _ in self.out[node]) or any(
            self.chain_of[other] == chain for other in self.into[node]
        )

    def unite(self, merge: _Merge) -> None:
        """Merge two chains."""
        self.scores[merge.a] += self.scores.pop(merge.b) + merge.gain
        self.nodes[merge.a] = merge.nodes
        del self.nodes[merge.b]
        for node in merge.nodes:
            self.chain_of[node] = merge.a


def _worth(gap: int) -> int:
    if not gap:
        return _FALL
    if gap > 0:
        return _FORWARD_STEP * (_FORWARD - gap) if gap < _FORWARD else 0
    return _BACKWARD_STEP * (_BACKWARD + gap) if -gap < _BACKWARD else 0


def ordered(graph: FlowGraph) -> list[int]:
    """Return the blocks of *graph* in order; `orders` does the same, faster."""
    chains = _Chains(graph)
    merges: dict[tuple[int, int], _Merge] = {}

    def consider(one: int, other: int) -> None:
        pair = min(one, other), max(one, other)
        if (result := chains.best(*pair)) is not None:
            merges[pair] = result

    for name in sorted(chains.nodes):
        for other in chains.neighbours(name):
            if other > name:
                consider(name, other)
    while merges:
        taken = min(merges.values(), key=lambda merge: (-merge.gain, merge.a, merge.b))
        chains.unite(taken)
        merges = {pair: result for pair, result in merges.items() if not {taken.a, taken.b} & set(pair)}
        for other in chains.neighbours(taken.a):
            consider(taken.a, other)

    def compare(one: int, other: int) -> int:
        (runs, size), (other_runs, other_size) = chains.density(one), chains.density(other)
        left, right = runs * other_size, other_runs * size
        return (left < right) - (left > right) or chains.nodes[one][0] - chains.nodes[other][0]

    first = chains.chain_of[0]
    rest = sorted((name for name in chains.nodes if name != first), key=cmp_to_key(compare))
    return [node for name in (first, *rest) for node in chains.nodes[name]]
