"""What was learned from a run: exactly, and as a profiler that samples would see it; in each tool's own form."""

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from hugealign.elf.symbols import Functions
from hugealign.profile.match import Matched


@dataclass(frozen=True, slots=True)
class Learned:
    """*samples* by function, by its index; *calls* from one to another, at an offset; none in a flat profile."""

    name: str
    samples: dict[int, int]
    calls: dict[tuple[int, int, int | None], int]

    def hottest(self) -> list[int]:
        """Return the functions with the most samples first, as a script of ten lines would have them."""
        return sorted(self.samples, key=lambda index: (-self.samples[index], index))


def full(ran: Matched) -> Learned:
    """Return every instruction and every call."""
    return Learned("full", dict(ran.samples), dict(ran.arcs))


def sampled(ran: Matched, count: int) -> Learned:
    """Return *count* flat samples: functions, drawn by the instructions that ran in them; the same ones every time."""
    functions = sorted(ran.samples)
    drawn = random.Random(count).choices(functions, [ran.samples[index] for index in functions], k=count)
    return Learned(f"{count:,} samples", dict(Counter(drawn)), {})


def for_hugealign(learned: Learned, functions: Functions, path: Path) -> Path:
    """Write it as BOLT's tools hand on aggregated addresses, which `hugealign order` takes; return *path*."""
    starts = functions.starts
    lines = [f"S {starts[index]:x} {count}" for index, count in sorted(learned.samples.items())]
    lines += [
        f"B {starts[caller] + (offset or 0):x} {starts[callee]:x} {count} 0"
        for (caller, callee, offset), count in sorted(learned.calls.items(), key=lambda item: str(item[0]))
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def for_bolt(
    learned: Learned, functions: Functions, path: Path, counts: dict[tuple[int, int], int] | None = None
) -> Path:
    """Write it as BOLT's profile without branches; return *path*.

    *counts* are how often the blocks ran, by function and offset in it; without them, each function has its samples at
    its beginning.  BOLT numbers local functions, each name by itself, in the order of their addresses.
    """
    names, seen = [], Counter[str]()
    for name, file in zip(functions.names, functions.files, strict=True):
        seen[name] += bool(file)
        escaped = name.replace("\\", "\\\\").replace(" ", "\\ ")
        names.append(f"{escaped}/{seen[name]}" if file else escaped)
    rows = sorted((counts or {(index, 0): count for index, count in learned.samples.items()}).items())
    lines = [f"1 {names[index]} {offset:x} {count}" for (index, offset), count in rows if names[index]]
    path.write_text("\n".join(["no_lbr", *lines]) + "\n")
    return path


def call_graph(learned: Learned, functions: Functions, path: Path) -> Path:
    """Write it for lld's --call-graph-ordering-file; return *path*."""
    weights: Counter[tuple[str, str]] = Counter()
    for (caller, callee, _), count in learned.calls.items():
        weights[functions.names[caller], functions.names[callee]] += count
    path.write_text("".join(f"{a} {b} {n}\n" for (a, b), n in weights.items() if a and b and " " not in a + b))
    return path


def symbols(learned: Learned, functions: Functions, path: Path, form: str = "{}") -> Path:
    """Write a line in *form* for each function that ran, the hottest first; return *path*."""
    names = [functions.names[index] for index in learned.hottest()]
    path.write_text("".join(f"{form.format(name)}\n" for name in names if name))
    return path
