"""The figures of one build: where its code lies, which windows can be huge, and its misses then."""

import random
from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from hugealign.elf.image import Image
from hugealign.elf.symbols import Functions, read_functions
from hugealign.elf.windows import text_windows
from hugealign.system.processors import CPUS
from hugealign_lab.geometry import Geometry, geometry
from hugealign_lab.placement import WINDOW, Placement, original
from hugealign_lab.relinked import moves, relinked
from hugealign_lab.simulate import simulate
from hugealign_lab.tracefile import Trace
from lab.bench.peers.builds import Build
from lab.tests.traces import executed

_Key = TypeVar("_Key")
_DRAWS, _FEW_DRAWS, _SMALL = 32, 4, 4 << 20
_SETS = 32  # of 4 KiB pages, at most: the part of a page's number that decides which pages share a set
_NEARLY_ALL = Fraction(999, 1000)
_ASIDE = 1 << 20  # in windows: where windows are put side by side, far behind any text


#: With 8, 8, 32, 64 and 48 entries for 2 MiB pages in the first level, and 64 to 256 for 4 KiB; others lie between.
_PROCESSORS = ("ivybridge", "skylake", "sapphirerapids", "zen4", "neoverse-v1")


def processors() -> dict[str, Geometry]:
    """Return the processors to simulate, each under its name and those of all others with the same first level."""
    names: dict[object, list[str]] = {}
    shapes: dict[object, Geometry] = {}
    for cpu in CPUS:
        if cpu.l1_4k is not None and cpu.l1_2m is not None:
            result = geometry(cpu)
            names.setdefault(result.first, []).append(cpu.name)
            shapes.setdefault(result.first, result)
    wanted = [(first, result) for first, result in names.items() if set(result) & set(_PROCESSORS)]
    return {", ".join(result): shapes[first] for first, result in wanted}


@dataclass(frozen=True, slots=True)
class Lies:
    """Where the code of a build lies: the *placement* to simulate, and *numbers* of windows to make huge in it.

    *needed* windows hold code that ran, *most* windows 99.9 % of the instructions; *mappable* ones can be huge.
    """

    placement: Placement
    needed: int
    most: int
    mappable: int


def lies(
    build: Build, trace: Trace, file: int, before: Functions, samples: dict[int, int], learned: Counter[int] | None
) -> Lies:
    """Return where the code of *build* lies; *samples* are the instructions of the run that was learned from.

    *trace* is of the build itself if its code is rewritten, else of the build with the functions *before*.  For
    rewritten code, *learned* takes the place of *samples*: the instructions of that run in each window (`by_window`).
    """
    executions = executed(trace)
    after = read_functions(build.path)
    heat: Counter[int] = Counter()
    if build.rewritten:
        placement = original(trace, file, build.title)
        warm = _by_window(trace, file, placement, executions)
        heat.update(learned or {})
    else:
        result = moves(before, after)
        placement = relinked(trace, file, build.title, before, after, result)
        warm = _by_window(trace, file, placement, executions)
        for index, start in enumerate(result):
            if start is not None and index in samples:
                heat[start // WINDOW] += samples[index]
    windows = _mappable(after.image, build.title == "libhugetlbfs")
    if not build.ours:
        placement = _hottest_first(trace, file, placement, sorted(windows, key=lambda w: (-heat[w], w)))
    return Lies(placement, len(warm), len(most(warm, _NEARLY_ALL)), len(windows))


def most(counted: Mapping[_Key, int], share: Fraction) -> set[_Key]:
    """Return the smallest set of keys with that *share* of all that is *counted*."""
    result, left = set(), sum(counted.values()) * share
    for key in sorted(counted, key=lambda key: -counted[key]):
        if left <= 0:
            break
        left -= counted[key]
        result.add(key)
    return result


def _mappable(image: Image, all_of_it: bool) -> list[int]:
    """Return the windows that the kernel can make huge; libhugetlbfs copies the text, and rounds it up."""
    if all_of_it:
        return sorted(
            {
                window
                for s in image.text_segments
                for window in range(s.p_vaddr // WINDOW, -(-(s.p_vaddr + s.p_memsz) // WINDOW))
            }
        )
    return [window for _, begin, end in text_windows(image, WINDOW) for window in range(begin // WINDOW, end // WINDOW)]


def drawn(trace: Trace, file: int, placement: Placement, text: int) -> list[Placement]:
    """Return *placement* with the other files of *trace* at several places, as the kernel draws them for each process.

    In a table with sets, the draw decides which pages share a set; in a program that almost fits, misses differ by
    hundreds of times.  Larger *text*, in bytes, gets fewer draws: in LLVM's code generators on an Ivy Bridge, with two
    windows, eight gave 43,956 to 62,571 misses.  Over all draws each file lies at each place equally often (McKay et
    al., Technometrics 21, 1979, page 239): 64 plain draws gave SQLite's shell 6,559 and 6,073 misses, by hugealign and
    BOLT, with errors of 1,113 and 905; 32 of these gave 5,306 to 5,314 and 7,917 to 7,924.
    """
    count = _DRAWS if text <= _SMALL else _FEW_DRAWS
    places = [spread(count, number) for number in range(len(trace.description.files))]
    places[file] = [0] * count
    placements = []
    for draw in range(count):
        aside = [those[draw] << 12 for those in places]
        rows = zip(placement.addresses, trace.block_rows(), strict=True)
        addresses = array("Q", (address + (aside[number] if number else 0) for address, (_, number, _, _) in rows))
        placements.append(replace(placement, name=str(draw), addresses=addresses))
    return placements


def spread(count: int, seed: int) -> list[int]:
    """Return *count* pages in random order, one from each of as many equal parts of the sets."""
    pages = random.Random(seed)
    parts = list(range(count))
    pages.shuffle(parts)
    return [(part * _SETS + pages.randrange(_SETS)) // count for part in parts]


def missed(
    draws: Sequence[Placement], trace: Trace, budgets: Sequence[int], cpus: Collection[Geometry]
) -> tuple[dict[str, list[int]], int]:
    """Return the misses of each of *cpus* at each of *budgets*, the mean of all *draws*, and the instructions that ran.

    A budget of more windows than the placement has means all of them.
    """
    with_sets = [cpu for cpu in cpus if cpu.first.small.sets > 1]
    others = [cpu for cpu in cpus if cpu not in with_sets]  # all draws are the same for these
    means: dict[str, list[int]] = {}
    instructions = 0
    for some, those in ((draws, with_sets), (draws[:1], others)):
        if not those:
            continue
        done = simulate(trace, [(draw, budgets) for draw in some], those)
        misses = Counter[tuple[str, int]]()
        for row in done.rows:
            misses[row.cpu, row.windows] += row.misses
        for cpu in those:
            means[cpu.name] = [round(misses[cpu.name, min(n, draws[0].windows)] / len(some)) for n in budgets]
        instructions = done.instructions
    return means, instructions


def by_window(trace: Trace, file: int) -> Counter[int]:
    """Return the instructions that ran in each window of the *file*, at its original addresses."""
    return Counter(_by_window(trace, file, original(trace, file), executed(trace)))


def _by_window(trace: Trace, file: int, placement: Placement, executions: Sequence[int]) -> dict[int, int]:
    """Return the instructions that ran in each window of the file, by the window's number in it."""
    base = _region(trace, file)
    warm: Counter[int] = Counter()
    rows = zip(placement.addresses, trace.block_rows(), executions, strict=True)
    for address, (_, number, _, instructions), times in rows:
        if number == file and times:
            warm[address // WINDOW - base] += times * instructions
    return dict(warm)


def _region(trace: Trace, file: int) -> int:
    """Return the number of the first window of the region of *file*."""
    begins = min(s.p_vaddr for s in trace.description.files[file].segments if s.executable and s.p_memsz)
    return original(trace, file).first - begins // WINDOW


def _hottest_first(trace: Trace, file: int, placement: Placement, windows: Sequence[int]) -> Placement:
    """Return the placement with *windows* side by side, in that order: the leading N are then the first N of them.

    A page keeps its place in its window, and so, in all known TLBs, its set in the first level for 4 KiB pages.
    """
    base = _region(trace, file)
    aside = {window + base: base + _ASIDE + rank for rank, window in enumerate(windows)}
    addresses = array("Q")
    for address, (_, number, _, _) in zip(placement.addresses, trace.block_rows(), strict=True):
        window = aside.get(address // WINDOW) if number == file else None
        addresses.append(address if window is None else window * WINDOW + address % WINDOW)
    return Placement(placement.name, addresses, base + _ASIDE, len(windows))
