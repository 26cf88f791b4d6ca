"""The profile of a run: exact, and as a sampling profiler would see it, in each tool's own form."""

import os
import random
from array import array
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import capstone

from hugealign.elf.symbols import Functions
from hugealign.profile import counts
from hugealign.profile.match import Matched
from hugealign_lab.replay import ELSEWHERE, FUNCTION, Replay
from hugealign_lab.tracefile import Trace

#: The instructions that ran in each block, by function and offset in it.
Spots = dict[tuple[int, int], int]


@dataclass(frozen=True, slots=True)
class Learned:
    """*samples* by the index of the function; *calls* from one to another, at an offset; none in a flat profile.

    *spots* are the places of a flat profile's samples in the functions.
    """

    name: str
    samples: dict[int, int]
    calls: dict[tuple[int, int, int | None], int]
    spots: Spots

    def hottest(self) -> list[int]:
        """Return the functions with the most samples first, as a script of ten lines would sort them."""
        return sorted(self.samples, key=lambda index: (-self.samples[index], index))


def full(ran: Matched) -> Learned:
    """Return the profile of every instruction and every call."""
    return Learned("full", dict(ran.samples), dict(ran.arcs), {})


def sampled(spots: Spots, count: int) -> Learned:
    """Return *count* flat samples, drawn by the instructions that ran at *spots*; the same ones every time."""
    places = sorted(spots)
    drawn = Counter(random.Random(count).choices(places, [spots[place] for place in places], k=count))
    samples = Counter[int]()
    for (index, _), times in drawn.items():
        samples[index] += times
    return Learned(f"{count:,} samples", dict(samples), {}, dict(drawn))


def for_hugealign(learned: Learned, functions: Functions, path: Path, program: str) -> Path:
    """Write the profile as the counts of a host, by name and file; return *path*."""
    names = [(None, name, file) for name, file in zip(functions.names, functions.files, strict=True)]
    rows: dict[bytes, int] = {}
    for index, count in learned.samples.items():
        counts.add(rows, counts.function(*names[index]), count)
    for (caller, callee, offset), count in learned.calls.items():
        counts.add(rows, counts.call(counts.end(*names[caller]), offset, counts.end(*names[callee])), count)
    path.write_bytes(counts.write({counts.head("", program): rows}))
    return path


def for_bolt(learned: Learned, functions: Functions, path: Path) -> Path:
    """Write flat samples like `perf2bolt -nl`, each at its address; return *path*.

    BOLT numbers the local functions of each name in the order of their addresses.
    """
    names, seen = [], Counter[str]()
    for name, file in zip(functions.names, functions.files, strict=True):
        seen[name] += bool(file)
        escaped = name.replace("\\", "\\\\").replace(" ", "\\ ")
        names.append(f"{escaped}/{seen[name]}" if file else escaped)
    rows = sorted(learned.spots.items())
    lines = [f"1 {names[index]} {offset:x} {count}" for (index, offset), count in rows if names[index]]
    path.write_text("\n".join(["no_lbr", *lines]) + "\n")
    return path


def aggregated(trace: Trace, file: int, program: Path, functions: Functions, path: Path) -> Path:
    """Write every branch of a run in BOLT's pre-aggregated form, as for LBR's branches; return *path*.

    *functions* are the functions of *program*, which is number *file* of the *trace*.  `B` is a taken branch, `F` the
    code that ran between two, `f` the same after a return from another function (bolt/lib/Profile/DataAggregator.cpp).
    """
    rows = list(trace.block_rows())
    owners = array("I", (FUNCTION if number == file else ELSEWHERE for _, number, _, _ in rows))
    with Replay(trace) as replay:
        replay.count_calls(owners, bytes(len(rows)), branches=True)
        replay.run()
        executions = replay.executions()
        pairs, uncounted = replay.calls()
    if uncounted:
        raise SystemExit(f"{uncounted} branches are left out: too many different ones")
    lasts, branching = _last_instructions(rows, executions, owners, program, functions)
    inside = [functions.at(row[0]) if owner == FUNCTION else -1 for row, owner in zip(rows, owners, strict=True)]
    ahead, left = [], list(executions)  # a block that falls through is one piece with the next
    returned = Counter[int]()
    for (one, other), times in pairs.items():
        begins, (address, _, size, _) = rows[other][0], rows[one]
        if inside[one] == inside[other] and begins == address + size:
            ahead.append(f"F {address:x} {begins:x} {times}")
            left[one] -= times
        elif branching[one]:
            ahead.append(f"B {lasts[one]:x} {begins:x} {times} 0")
            if inside[one] != inside[other] >= 0 and begins != functions.starts[inside[other]]:
                returned[other] += times
    lines = [f"F {row[0]:x} {lasts[n]:x} {left[n]}" for n, row in enumerate(rows) if inside[n] >= 0 and left[n] > 0]
    lines += [f"f {rows[n][0]:x} {rows[n][0]:x} {times}" for n, times in returned.items()]
    path.write_text("\n".join(sorted(ahead) + lines) + "\n")
    return path


def _last_instructions(
    rows: list[tuple[int, int, int, int]],
    executions: list[int],
    owners: "array[int]",
    program: Path,
    functions: Functions,
) -> tuple[list[int], list[bool]]:
    """Return the address of the last instruction of each block that ran, and whether it is a branch, call or return."""
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    kinds = {capstone.CS_GRP_JUMP, capstone.CS_GRP_CALL, capstone.CS_GRP_RET}
    lasts, branching = [0] * len(rows), [False] * len(rows)
    with program.open("rb") as stream:
        text = {s.p_vaddr: os.pread(stream.fileno(), s.p_filesz, s.p_offset) for s in functions.image.text_segments}
    for n, (address, _, size, _) in enumerate(rows):
        if not executions[n] or owners[n] != FUNCTION:
            continue
        base = max((begin for begin in text if begin <= address), default=address)
        code = text.get(base, b"")[address - base : address - base + size]
        for at, length, _, _ in decoder.disasm_lite(code, address):
            if at + length == address + size:
                (last,) = decoder.disasm(code[at - address :], at)
                lasts[n], branching[n] = at, bool(kinds & set(last.groups))
    return lasts, branching


def call_graph(learned: Learned, functions: Functions, path: Path) -> Path:
    """Write the calls for lld's --call-graph-ordering-file; return *path*."""
    weights: Counter[tuple[str, str]] = Counter()
    for (caller, callee, _), count in learned.calls.items():
        weights[functions.names[caller], functions.names[callee]] += count
    path.write_text("".join(f"{a} {b} {n}\n" for (a, b), n in weights.items() if a and b and " " not in a + b))
    return path


def symbols(learned: Learned, functions: Functions, path: Path, form: str = "{}") -> Path:
    """Write a line in *form* for each function that ran, hottest first; return *path*."""
    names = [functions.names[index] for index in learned.hottest()]
    path.write_text("".join(f"{form.format(name)}\n" for name in names if name))
    return path
