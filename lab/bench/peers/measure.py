"""All figures of one program, as a document from which `report` makes the tables."""

import datetime as dt
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hugealign.elf.symbols import Functions, read_functions
from hugealign.measuring.interval import paired
from hugealign_lab.files import find
from hugealign_lab.ran import profile
from hugealign_lab.tracefile import Trace, open_trace
from lab.bench import timing
from lab.bench.peers import builds, figures, live, profiles
from lab.bench.peers.builds import Build
from lab.bench.peers.program import LINKERS, Program
from lab.tests.traces import executed
from tests.support import HUGEALIGN, run

_SHOWN = 8  # windows: of builds per budget, the one for this or the next lower budget is run and inspected
_LINKS, _JOBS = 6, 24  # rounds
_BEGAN = time.monotonic()


def say(text: str) -> None:
    """Show progress."""
    print(f"{time.monotonic() - _BEGAN:7.0f} s  {text}", file=sys.stderr, flush=True)


def traced(program: Program, path: Path, arguments: tuple[str, ...], name: str) -> Trace:
    """Return the trace of a run of *path*, recorded unless one of the same build is there."""
    trace = program.directory / f"{name}.trace"
    if trace.exists():
        result = open_trace(str(trace))
        try:
            find(result.description.files, str(path))
            if result.description.command[1:] == arguments:
                return result
        except Exception:  # noqa: BLE001 - after any error it is recorded again
            say(f"{name}: of another build")
    words = [str(HUGEALIGN), "trace", "-o", trace.name, "--", str(path), *arguments]
    timing.cost(words, program.directory)
    return open_trace(str(trace))


def measure(program: Program, bolt: bool, timed: bool) -> Iterator[dict[str, Any]]:
    """Build, trace, simulate, run and time everything; yield the document whenever it has grown."""
    say(f"{program.name}: linkers")
    alone = list(builds.linkers(program))
    base = alone[0].path
    before = read_functions(base)
    say("trace")
    train = traced(program, base, program.train, "train")
    test = traced(program, base, program.test, "test")
    file = find(train.description.files, str(base))
    ran, _ = profile(train, file, before)
    spots = spots_of(train, file, before)
    learned = [profiles.sampled(spots, 1000), profiles.sampled(spots, 10000), profiles.full(ran)]
    document: dict[str, Any] = {
        "program": program.name,
        "about": program.about,
        "functions": len(before),
        "text": before.text,
        "events": [train.description.events, test.description.events],
        "ran": [len(ran.samples), sum(before.sizes[index] for index in ran.samples)],
        "sampled": {item.name: len(item.samples) for item in learned},
        "budgets": list(program.budgets),
        "cpus": list(figures.processors()),
        "rows": [],
    }
    for build in _all(program, base, before, learned, alone):
        document["rows"].append(_simulated(program, build, test, before, ran.samples))
        yield document
    for build in builds.divided(program, base, Path(train.path)):
        trace = traced(program, build.path, program.test, build.path.name)
        document["rows"].append(_simulated(program, build, trace, before, ran.samples))
        yield document
    if bolt:
        for build in bolted(program, before, learned):
            say(f"{build.title}, {build.learned}: trace and simulation")
            trace = traced(program, build.path, program.test, build.path.name)
            document["rows"].append(_simulated(program, build, trace, before, ran.samples))
            yield document
    if timed:
        yield from times(program, document)


def times(program: Program, document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Time links and jobs of the builds of `measure`; yield its *document* with them, and with the day and load."""
    load = os.getloadavg()[0]
    document["timed"] = f"{dt.datetime.now(tz=dt.UTC).date().isoformat()}, load {load:.1f} at the start"
    document["links"] = _links(program)
    yield document
    document["jobs"] = _jobs(program)
    yield document


def _all(
    program: Program, base: Path, before: Functions, learned: list[profiles.Learned], alone: list[Build]
) -> Iterator[Build]:
    yield from alone
    yield from builds.orders(program, before, learned)
    yield from builds.ours(program, base, before, learned)


def spots_of(trace: Trace, file: int, functions: Functions) -> profiles.Spots:
    """Return the number of instructions that ran in each block, by function and offset."""
    result = Counter[tuple[int, int]]()
    for times, (address, number, _, instructions) in zip(executed(trace), trace.block_rows(), strict=True):
        index = functions.at(address) if number == file and times else -1
        if index >= 0:
            result[index, address - functions.starts[index]] += times * instructions
    return dict(result)


def bolted(program: Program, before: Functions, learned: list[profiles.Learned]) -> Iterator[Build]:
    """Yield BOLT's builds: the same run of its input file is traced once more, for its branches."""
    base = builds.for_bolt(program)
    trace = traced(program, base, program.train, "train.bolt")
    path = program.directory / "full.branches"
    profiles.aggregated(trace, find(trace.description.files, str(base)), base, read_functions(base), path)
    flat = [item for item in learned if item.spots]
    files = [profiles.for_bolt(item, before, program.directory / f"{len(item.spots)}.fdata") for item in flat]
    yield from builds.bolted(program, base, path, list(zip(flat, files, strict=True)))


def _simulated(
    program: Program, build: Build, trace: Trace, before: Functions, samples: dict[int, int]
) -> dict[str, Any]:
    """Return where the code of a build lies, its misses at each budget, and its huge pages when it runs."""
    say(" ".join(filter(None, (build.title, build.learned, "" if build.budget is None else str(build.budget)))))
    cpus = figures.processors()
    file = find(trace.description.files, str(build.path)) if build.rewritten else trace.description.program
    learned = None
    if build.rewritten and not build.ours:  # the first run chooses its windows too
        first = traced(program, build.path, program.train, f"{build.path.name}.train")
        learned = figures.by_window(first, find(first.description.files, str(build.path)))
        Path(first.path).unlink()
    result = figures.lies(build, trace, file, before, samples, learned)
    row = _row(program, build, result)
    budgets = _budgets(program, build)
    draws = figures.drawn(trace, file, result.placement, before.text)
    misses, row["instructions"] = figures.missed(draws, trace, budgets, cpus.values())
    row["misses"] = {title: dict(zip(map(str, budgets), misses[cpu.name], strict=True)) for title, cpu in cpus.items()}
    return row


def _budgets(program: Program, build: Build) -> tuple[int, ...]:
    """Return the budgets at which to simulate a build: all, or the one that it was made for."""
    return program.budgets if build.budget is None else (build.budget,)


def _row(program: Program, build: Build, found: figures.Lies) -> dict[str, Any]:
    status = os.stat(build.path)
    row: dict[str, Any] = {
        "title": build.title,
        "how": build.how,
        "learned": build.learned,
        "ours": build.title.startswith("hugealign"),
        "fill": build.fill,
        "budget": build.budget,
        "needed": found.needed,
        "most": found.most,
        "mappable": found.mappable,
        "seconds": build.seconds,
        "size": status.st_size,
        "disk": status.st_blocks * 512,
    }
    if build.budget in (None, max(budget for budget in program.budgets if budget <= _SHOWN)):
        if build.title == "libhugetlbfs":
            seen = live.by_libhugetlbfs(build.path, program.test, program.directory)
        else:
            seen = live.look(build.path, program.test, program.directory, row["ours"])
        row["live"] = {"text": seen.text, "huge": seen.huge, "resident": seen.resident, "why": seen.why}
    else:
        build.path.unlink()  # no longer needed, and there are many
    return row


def _links(program: Program) -> list[dict[str, Any]]:
    """Time links in turn: each against the same linker by itself."""
    linker = "lld" if program.large else "bfd"
    order = program.directory / "timed.order"
    wrapper, ordered = (str(HUGEALIGN),), (str(HUGEALIGN), f"--profile={order}")
    words = ["order", "full.counts", "-b", "plain.bfd", "-o", order.name, "--windows", "8"]
    run(HUGEALIGN, *words, cwd=program.directory, check=True)
    flags = LINKERS[linker]
    ways = {f"{linker}, default": builds.link(program, "timed", *flags)[0]}
    ways[f"hugealign, {linker}"] = builds.link(program, "timed", *flags, wrapper=wrapper)[0]
    ways[f"hugealign, {linker}, order, fill"] = builds.link(program, "timed", *flags, wrapper=ordered)[0]
    ways["lld, cdsort"] = builds.link(
        program,
        "timed",
        *builds.LLD_ORDERED,
        "-Wl,--call-graph-ordering-file=full.graph",
        "-Wl,--call-graph-profile-sort=cdsort",
    )[0]
    ways["gold, list"] = builds.link(
        program, "timed", *LINKERS["gold"], builds.MAX_PAGE, "-Wl,--section-ordering-file=full.sections"
    )[0]
    say("links in turn")
    costs = timing.in_turn([_command(argv, program) for argv in ways.values()], _LINKS)
    (program.directory / "timed").unlink()
    return _compared(list(ways), costs)


def _jobs(program: Program) -> list[dict[str, Any]]:
    """Time the program's own job, plain, and with its text huge, warmed."""
    linker = "lld" if program.large else "bfd"
    names = {
        f"{linker}, default": f"plain.{linker}",
        f"hugealign, {linker}": f"hugealign.{linker}",
        f"hugealign, {linker}, order, fill": f"hugealign.full.fill.{_SHOWN}",
    }
    for name in list(names.values())[1:]:
        run(HUGEALIGN, "warm", name, cwd=program.directory)
    say("jobs in turn")
    commands = [_command([str(program.directory / name), *program.job], program) for name in names.values()]
    return _compared(list(names), timing.in_turn(commands, _JOBS))


def _command(argv: list[str], program: Program) -> "timing.Timed":
    return lambda: timing.cost(argv, program.directory)


def _compared(names: list[str], costs: list[list[timing.Cost]]) -> list[dict[str, Any]]:
    rows = []
    for name, result in zip(names, costs, strict=True):
        row: dict[str, Any] = {"name": name, "rounds": len(result)}
        for kind in ("wall", "cpu"):
            plain, ours = ([getattr(item, kind) for item in side] for side in (costs[0], result))
            ratio = paired(plain, ours) if name != names[0] else None
            row[kind] = {"least": min(ours), "ratio": timing.claimed(ratio) if ratio else "--"}
        rows.append(row)
    return rows


def machine() -> str:
    """Return the machine in words."""
    release = os.uname().release.split("-")[0]
    system = subprocess.run(["findmnt", "-no", "FSTYPE", "-T", "."], capture_output=True, text=True, check=False)
    return f"Linux {release}, {system.stdout.strip() or 'unknown file system'}, {os.cpu_count()} processors"
