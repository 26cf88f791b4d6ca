"""What AutoFDO's file is worth to blocks: ``python -m lab.bench.autofdo``.

SQLite's shell of `lab.bench.peers`, compiled once more by clang 19 with line tables, runs its first script.  LLVM's
own tool, llvm-profgen, makes AutoFDO's file of the trace.  Orders learned from the file and from the trace are judged
by the second script, with no huge window, at eight places of the code within a page.
"""

import re
import subprocess
from bisect import bisect_left
from pathlib import Path

from hugealign.ordering.order import OrderOptions, order
from hugealign.profile.model import Flow
from hugealign.system.budget import budget_of
from hugealign_lab.files import find
from hugealign_lab.order import order_of_trace
from hugealign_lab.placement import ordered, original
from hugealign_lab.ran import traced as what_ran
from lab.bench.peers import figures, heldout
from lab.bench.peers.measure import traced
from lab.bench.peers.programs import PROGRAMS
from lab.bench.peers.units import variant
from lab.bench.places import cells
from tests.support import LLVM

_INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\t", re.MULTILINE)


def main() -> None:
    """Build, simulate, and print a table."""
    program = PROGRAMS["sqlite"]()
    files, flags = heldout.sqlite_units(program.directory)
    path = variant(program, "lines", files, (*flags, "-gline-tables-only", "-fdebug-info-for-profiling"))
    train = traced(program, path, program.train, f"{path.name}.train").path
    test = traced(program, path, program.test, f"{path.name}.test")
    flow = Flow()
    functions = what_ran(train, str(path), flow=flow).ran.functions
    profile = _autofdo(path, flow)
    budget, file = budget_of(windows=0), find(test.description.files, str(path))
    names = [title.split(",")[0] for title in figures.processors()]
    print(f"| order | functions divided | {' | '.join(names)} |")
    print(f"|---|---|{'---|' * len(names)}")
    print(f"| the linker's | | {' | '.join(cells(test, file, original(test, file), functions.text))} |", flush=True)
    for blocks in (False, True):
        for title in ("AutoFDO's file", "the trace"):
            if title == "the trace":
                made = order_of_trace(train, [], str(path), budget=budget, blocks=blocks)
            else:
                made = order(str(path), [str(profile)], OrderOptions(budget=budget, blocks=blocks))
            placement = ordered(test, file, "order", functions, [one.index for one in made.plan.placed], made.blocks)
            row = f"{'blocks' if blocks else 'functions'}, from {title} | {len(made.blocks or {}) or ''}"
            print(f"| {row} | {' | '.join(cells(test, file, placement, functions.text))} |", flush=True)


def _autofdo(path: Path, flow: Flow) -> Path:
    """Return the file that llvm-profgen makes of *flow*, what ran in the program at *path*."""
    # A trace knows the last byte of a piece of code, and llvm-profgen wants its last instruction.
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    starts = sorted(int(found, 16) for found in _INSTRUCTION.findall(code.stdout))

    def last(address: int) -> int:
        return starts[bisect_left(starts, address + 1) - 1]

    ranges: dict[tuple[int, int], int] = {}
    for (begin, end), count in flow.runs.items():
        ranges[begin, last(end - 1)] = ranges.get((begin, last(end - 1)), 0) + count
    lines = [f"{len(ranges)}", *(f"{begin:x}-{end:x}:{count}" for (begin, end), count in sorted(ranges.items()))]
    jumps = sorted(flow.jumps.items())
    lines += [f"{len(jumps)}", *(f"{last(source):x}->{target:x}:{count}" for (source, target), count in jumps)]
    raw, made = path.with_suffix(".ranges"), path.with_suffix(".autofdo")
    raw.write_text("\n".join([*lines, ""]))
    tool = [f"{LLVM['lld19']}/llvm-profgen", f"--binary={path}", f"--unsymbolized-profile={raw}", "--use-offset=0"]
    subprocess.run([*tool, "--format=text", f"--output={made}"], check=True, capture_output=True)
    return made


if __name__ == "__main__":
    main()
