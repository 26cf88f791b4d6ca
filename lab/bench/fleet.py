"""Merging the counts of a fleet, and ordering half a million functions from them.

``python -m lab.bench.fleet [HOSTS]`` makes files of about 200 kB, as of hosts that run one of twelve releases (by
Zipf's law) of a program with 40,000 functions; each host has seen some of them, the hot ones more often.  It prints
seconds by the clock, of the processor, and the peak of memory; twice, so that how it grows is seen.
"""

import argparse
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from hugealign.elf.symbols import read_functions
from hugealign.profile import counts
from lab.bench.costs.profiles import SYMBOLS, many_functions, used
from tests.support import HUGEALIGN

RELEASES, FUNCTIONS, DRAWS = 12, 40_000, 8_500
_POOL = 100


@dataclass(frozen=True, slots=True)
class Function:
    """A function that hosts run with a certain *weight*; *calls*: it is seen calling another one."""

    address: int
    name: str
    code: bytes
    weight: float
    calls: bool = False


def made_up() -> list[Function]:
    """Return the functions of an imaginary program."""
    return [
        Function(
            0x401000 + 160 * n, f"_ZN6server{n % 97:02}Module{n:05}{'x' * (n % 23)}EPKcm", b"", 1 / (n + 1), n % 3 == 0
        )
        for n in range(FUNCTIONS)
    ]


def seen(found: counts.Counts) -> list[Function]:
    """Return the functions in real counts, weighted by their samples."""
    rows = [(key.split(b"\t"), count) for mine in found.values() for key, count in mine.items() if key[:2] == b"f\t"]
    return [Function(int(words[1], 16), counts.name_of(words[2]), words[4], count) for words, count in rows if count]


def hosts(directory: Path, number: int, functions: Sequence[Function] | None = None, draws: int = DRAWS) -> list[Path]:
    """Write the counts of *number* hosts, each with *draws* samples of *functions*.

    A host has two of a hundred prepared draws; drawing anew for ten thousand hosts would take longer than the
    benchmark.
    """
    chance = random.Random(27)
    functions = functions or made_up()
    lines = [
        [counts.function(item.address + release, item.name, "", item.code) for item in functions]
        for release in range(RELEASES)
    ]
    calls = [[_call(functions, n, release) for n in range(len(functions))] for release in range(RELEASES)]
    heads = [counts.head(f"{release:040x}", "server") for release in range(RELEASES)]
    weights = list(accumulate(item.weight for item in functions))
    releases = [1 / (n + 1) for n in range(RELEASES)]
    every = range(len(functions))
    pool = [Counter(chance.choices(every, cum_weights=weights, k=draws // 2)) for _ in range(_POOL)]
    paths = []
    for host in range(number):
        release = chance.choices(range(RELEASES), releases)[0]
        hits = chance.choice(pool) + chance.choice(pool)
        mine = {lines[release][n]: count for n, count in hits.items()}
        mine |= {calls[release][n]: count for n, count in hits.items() if functions[n].calls}
        mine[counts.HOSTS] = 1
        paths.append(directory / f"{host:05}.counts")
        paths[-1].write_bytes(counts.write({heads[release]: mine}))
    return paths


def _call(functions: Sequence[Function], number: int, release: int) -> bytes:
    """Return the key of a call that one function makes."""
    pair = functions[number], functions[7 * number % len(functions)]
    ends = [counts.end(item.address + release, "", "") for item in pair]
    return counts.call(ends[0], number % 90, ends[1])


def show(title: str, cost: tuple[float, float, int]) -> None:
    """Print the cost of a command."""
    print(f"{title:60} {cost[0]:7.2f} s, {cost[1]:7.2f} s of the processor, {cost[2]:5} MiB", flush=True)


def merging(directory: Path, number: int) -> None:
    """Merge a tenth of the files, then all."""
    paths = hosts(directory, number)
    size = sum(path.stat().st_size for path in paths)
    print(f"{number} files of {size // number} bytes on average")
    for some in (paths[: number // 10], paths):
        words = [str(HUGEALIGN), "profile", "merge", *(path.name for path in some), "-o", "all"]
        show(f"merge of {len(some)} files", used(words, directory))


def ordering(directory: Path) -> None:
    """Order a program from counts of half a million functions."""
    functions = read_functions(many_functions(directory))
    chance = random.Random(27)
    for title, build_id in (("the same build", functions.build_id), ("another build", "ab" * 20)):
        rows = zip(functions.starts, functions.names, strict=True)
        mine = {counts.function(start, name, ""): int(chance.paretovariate(0.7)) for start, name in rows}
        (directory / "c").write_bytes(counts.write({counts.head(build_id, "many"): mine}))
        words = [str(HUGEALIGN), "order", "c", "-b", "many", "-o", "order"]
        show(f"order from counts of {SYMBOLS} functions, {title}", used(words, directory))


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hosts", type=int, nargs="?", default=10_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        merging(Path(work), args.hosts)
    with tempfile.TemporaryDirectory() as work:
        ordering(Path(work))


if __name__ == "__main__":
    main()
