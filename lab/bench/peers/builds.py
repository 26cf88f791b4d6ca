"""All builds of a program: by the linkers alone, by the peers, by hugealign."""

import dataclasses
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hugealign.elf.symbols import Functions
from lab.bench import timing
from lab.bench.peers import profiles
from lab.bench.peers.profiles import Learned
from lab.bench.peers.program import LINKERS, Program, fingerprint, record, recorded
from tests.support import HUGEALIGN, environment

BOLT = Path("/usr/lib/llvm-19/bin/llvm-bolt")  # from /usr/bin it looks for its runtime libraries in the wrong place
MAX_PAGE = "-Wl,-z,max-page-size=0x200000"
#: As in BOLT's README, "Step 3: Optimize with BOLT".
BOLT_BLOCKS = (
    *("-reorder-functions=cdsort", "-reorder-blocks=ext-tsp"),
    *("-split-functions", "-split-all-cold", "-split-eh"),
)
#: The order of a profile, without functions that it did not see.
BARE = """
import sys, hugealign
from hugealign.orderfile import write
profile, _, binary, _, path, _, windows = sys.argv[1:]
options = hugealign.OrderOptions(budget=hugealign.budget_of(windows=int(windows)), fill=False)
open(path, "w").write(write(hugealign.order(binary, [profile], options).file()))
"""
LLD_ORDERED = (*LINKERS["lld"], MAX_PAGE, "-Wl,-z,separate-code", "-Wl,--no-warn-symbol-ordering")


@dataclass(frozen=True, slots=True)
class Build:
    """A finished file.

    *how* says how it was made, *seconds* is the processor time of that.  *ours* has its huge windows in front; of all
    other builds the hottest windows are taken.  *learned* is the profile, *fill* whether its order fills up.
    *rewritten*: code inside functions has changed, so it has to be traced.  *budget* is the budget that it is made for,
    None if it is for all.
    """

    title: str
    how: str
    path: Path
    seconds: float = 0.0
    ours: bool = False
    learned: str = ""
    fill: bool = False
    rewritten: bool = False
    budget: int | None = None


def link(program: Program, target: str, *flags: str, wrapper: tuple[str, ...] = ()) -> tuple[list[str], Path]:
    """Return the command that links *program* to the file *target* in its directory, and its path."""
    command = [*wrapper, program.driver, *flags, *program.words, "-o", target]
    return command, program.directory / target


def made(program: Program, command: list[str], path: Path, reads: Path | None = None) -> float:
    """Run the *command* that makes *path* and return its processor time in seconds; an error shows its output.

    The result of an earlier run of the same command, on the same objects and file that it *reads*, is kept: so an
    interrupted run can go on.
    """
    inputs = [program.directory / word for word in program.words if word.endswith(".o") or "archives/lib" in word]
    inputs += [reads] if reads else []
    mark = fingerprint(command, inputs)
    if kept := recorded(path, mark):
        return float(kept["seconds"])
    path.unlink(missing_ok=True)
    try:
        with path.with_name(f"{path.name}.said").open("w") as output:
            seconds = timing.cost(command, program.directory, output=output).cpu
    except subprocess.CalledProcessError:
        done = subprocess.run(
            command, cwd=program.directory, env=environment(), capture_output=True, text=True, check=False
        )
        raise SystemExit(f"{' '.join(command)[:2000]}\n{done.stderr[-2000:]}") from None
    record(path, mark, seconds=seconds)
    return seconds


def linkers(program: Program) -> Iterator[Build]:
    """Yield the build of each linker by itself, and with only the alignment."""
    for name, flags in LINKERS.items():
        command, path = link(program, f"plain.{name}", *flags)
        yield Build(f"{name}, default", "nothing", path, made(program, command, path))
    for name, flags in LINKERS.items():
        command, path = link(program, f"aligned.{name}", *flags, MAX_PAGE)
        yield Build(f"{name}, max-page-size", "`-z max-page-size=2M`", path, made(program, command, path))
    command, path = link(program, "libhugetlbfs", *LINKERS["bfd"], MAX_PAGE, "-Wl,-z,common-page-size=0x200000")
    how = "`-z common-page-size=2M -z max-page-size=2M`; `HUGETLB_ELFMAP=R`, preloaded"
    yield Build("libhugetlbfs", how, path, made(program, command, path))


def orders(program: Program, functions: Functions, learned: list[Learned]) -> Iterator[Build]:
    """Yield the linkers' builds with an order: lld's own sorting of calls, and plain lists of the hottest functions."""
    for profile in learned:
        word = "".join(c for c in profile.name if c.isalnum())
        if profile.calls:
            graph = profiles.call_graph(profile, functions, program.directory / f"{word}.graph")
            for kind in ("cdsort", "hfsort"):
                flags = [f"-Wl,--call-graph-ordering-file={graph.name}", f"-Wl,--call-graph-profile-sort={kind}"]
                command, path = link(program, f"lld.{kind}", *LLD_ORDERED, *flags)
                how = f"`--call-graph-ordering-file --call-graph-profile-sort={kind}`"
                yield Build(f"lld, {kind}", how, path, made(program, command, path, graph), learned=profile.name)
        listed = profiles.symbols(profile, functions, program.directory / f"{word}.symbols")
        command, path = link(program, f"lld.{word}", *LLD_ORDERED, f"-Wl,--symbol-ordering-file={listed.name}")
        how = "`--symbol-ordering-file`, the hottest first"
        yield Build("lld, list", how, path, made(program, command, path, listed), learned=profile.name)
        listed = profiles.symbols(profile, functions, program.directory / f"{word}.sections", ".text.{}")
        flags = [*LINKERS["gold"], MAX_PAGE, f"-Wl,--section-ordering-file={listed.name}"]
        command, path = link(program, f"gold.{word}", *flags)
        how = "`--section-ordering-file`, the hottest first"
        yield Build("gold, list", how, path, made(program, command, path, listed), learned=profile.name)


def for_bolt(program: Program) -> Path:
    """Return BOLT's input: the program linked with its relocations."""
    command, path = link(program, "bolt.in", *LINKERS["lld" if program.large else "bfd"], MAX_PAGE, "-Wl,-q")
    made(program, command, path)
    return path


def bolted(program: Program, before: Path, branches: Path, flat: list[tuple[Learned, Path]]) -> Iterator[Build]:
    """Yield BOLT's builds of *before*: with all *branches* of a run, pre-aggregated, and with *flat* samples as fdata.

    The options are those of BOLT's README ("Step 3: Optimize with BOLT"), and the profile is made as in its documents:
    by ``perf2bolt`` from branches.  Its own instrumentation would count the same, but takes more than 14 GiB of memory
    for a program such as clang.
    """
    cdsort, blocks = BOLT_BLOCKS[:1], (*BOLT_BLOCKS, "-dyno-stats")
    data = program.directory / "full.fdata"
    convert = [str(BOLT.with_name("perf2bolt")), before.name, "-pa", "-p", branches.name, "-o", data.name]
    spent = made(program, convert, data, branches)
    full = [("BOLT, cdsort", cdsort), ("BOLT, cdsort, hugify", (*cdsort, "-hugify")), ("BOLT, blocks", blocks)]
    ways = [("full", data, title, words) for title, words in full]
    ways += [(learned.name, path, "BOLT, cdsort", cdsort) for learned, path in flat]
    for name, path, title, words in ways:
        result = program.directory / f"bolt.{''.join(c for c in name if c.isalnum())}.{len(words)}"
        command = [str(BOLT), before.name, *words, f"-data={path.name}", "-o", result.name]
        seconds = made(program, command, result, path) + (spent if path == data else 0)
        output = result.with_name(f"{result.name}.said").read_text()
        how = f"`{' '.join(words)}`; {_accepted(output)}"
        yield Build(title, how, result, seconds, learned=name, rewritten=True)
        if words is blocks:
            whole = result.with_name(f"{result.name}.fixed")
            seconds += made(program, [str(HUGEALIGN), "fix", "-o", whole.name, result.name], whole, result)
            yield Build(f"{title}, fix", "the same, `hugealign fix`", whole, seconds, learned=name, rewritten=True)


def _accepted(said: str) -> str:
    """Return how much of its profile BOLT took, by its output *said*.  Ends the comparison unless it is nearly all."""
    profiled = re.search(r"BOLT-INFO: (\d+) out of \d+ functions in the binary", said)
    stale = re.search(r"BOLT-WARNING: (\d+) \([\d.]+% of all profiled\) functions? ha(?:ve|s) invalid", said)
    taken = re.findall(r"^ +(-?\d+) : (?:\S+ )?taken branches.*", said, re.MULTILINE)
    if profiled is None:
        raise SystemExit(f"BOLT found no profile:\n{said[-2000:]}")
    bad = int(stale[1]) if stale else 0
    if bad * 100 > int(profiled[1]):
        raise SystemExit(f"BOLT takes {bad} of {profiled[1]} profiled functions for stale: the comparison is unfair")
    words = f"{int(profiled[1]):,} functions profiled, {bad:,} of them stale"
    if len(taken) > 1:
        words += f"; taken branches {int(taken[0]):,} before, {int(taken[-1]):,} after, by `-dyno-stats`"
    return words


def divided(program: Program, before: Path, train: Path) -> Iterator[Build]:
    """Yield hugealign's builds with blocks, for each budget of windows, if the program can be recompiled.

    They learn from the trace *train* of *before*.  The budget does not affect which blocks stay.
    """
    if program.divided is None:
        return
    linker = "lld" if program.large else "bfd"
    repeated = None
    for budget in program.budgets:
        order = program.directory / f"blocks.{budget}.order"
        words = ["order-trace", "--blocks", train.name, "-b", str(before), "-o", order.name]
        words += ["--windows", str(budget)]
        seconds = made(program, [str(HUGEALIGN), *words], order, train)
        repeated = repeated or dataclasses.replace(program, words=program.divided(order))
        wrapper = (str(HUGEALIGN), f"--profile={order}")
        command, path = link(repeated, f"hugealign.blocks.{budget}", *LINKERS[linker], wrapper=wrapper)
        seconds += made(repeated, command, path, order)
        how = "`hugealign order-trace --blocks`, `hugealign --profile clang-19`; seconds without compiling"
        yield Build("hugealign, blocks", how, path, seconds, True, "full", rewritten=True, budget=budget)


def ours(program: Program, before: Path, functions: Functions, learned: list[Learned]) -> Iterator[Build]:
    """Yield hugealign's builds, for each budget of windows; *before* is the profiled file."""
    linker = "lld" if program.large else "bfd"
    for name in dict.fromkeys(("bfd", linker)):
        command, path = link(program, f"hugealign.{name}", *LINKERS[name], wrapper=(str(HUGEALIGN),))
        yield Build(f"hugealign, {name}", "`hugealign`", path, made(program, command, path))
    for profile in learned:
        word = "".join(c for c in profile.name if c.isalnum())
        raw = profiles.for_hugealign(profile, functions, program.directory / f"{word}.counts", before.name)
        for fill in (False, True):
            for budget in program.budgets:
                kind = "fill" if fill else "bare"
                order = program.directory / f"{word}.{kind}.{budget}.order"
                words = ["order", raw.name, "-b", str(before), "-o", order.name, "--windows", str(budget)]
                command = [str(HUGEALIGN), *words] if fill else [sys.executable, "-c", BARE, *words[1:]]
                seconds = made(program, command, order, raw)
                wrapper = (str(HUGEALIGN), f"--profile={order}")
                target = f"hugealign.{word}.{kind}.{budget}"
                command, path = link(program, target, *LINKERS[linker], wrapper=wrapper)
                seconds += made(program, command, path, order)
                how = f"`{'hugealign order' if fill else 'hugealign.order(fill=False)'}`, `hugealign --profile`"
                title = f"hugealign, {linker}, order{', fill' if fill else ''}"
                yield Build(title, how, path, seconds, True, profile.name, fill, budget=budget)
