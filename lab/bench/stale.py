"""What the profile of another build is still worth: ``python -m lab.bench.stale``.

SQLite's shell of `lab.bench.peers`, which has to have run, is the old build: Debian 12's 3.40, compiled by clang 19.
The new ones are the same with other options, which change a few functions, and Debian 13's 3.46, two years younger.
Each new build is judged by its own second run, laid out in the linker's order, and in orders learned from the first run
of the old build (``--old-binary``) and of itself.  No window is huge; the code lies at eight places within a page.
"""

from collections.abc import Iterator
from pathlib import Path

from hugealign.elf.symbols import read_functions
from hugealign.system.budget import budget_of
from hugealign_lab.files import find
from hugealign_lab.order import order_of_trace
from hugealign_lab.placement import ordered, original
from lab.bench.peers import figures, heldout
from lab.bench.peers.measure import traced
from lab.bench.peers.program import Program
from lab.bench.peers.programs import PROGRAMS
from lab.bench.peers.units import variant
from lab.bench.places import cell, misses_of

_OPTIONS = ("STAT4", "COLUMN_METADATA", "UPDATE_DELETE_LIMIT")


def main() -> None:
    """Build, simulate, and print a table."""
    program = PROGRAMS["sqlite"]()
    files, flags = heldout.sqlite_units(program.directory)
    later = program.directory / "trixie"
    later.mkdir(exist_ok=True)
    builds = {
        "other options": (files, (*flags, *(f"-DSQLITE_ENABLE_{option}" for option in _OPTIONS))),
        "SQLite 3.46": heldout.sqlite_units(later, "trixie"),
    }
    names = [title.split(",")[0] for title in figures.processors()]
    print(f"| new build | order | found again | {' | '.join(names)} |")
    print(f"|---|---|---|{'---|' * len(names)}")
    for name, (those, options) in builds.items():
        path = variant(program, "".join(letter for letter in name.lower() if letter.isalnum()), those, options)
        for row in _rows(program, path):
            print(f"| {name} | {row} |", flush=True)


def _rows(program: Program, path: Path) -> Iterator[str]:
    """Yield the order, what was found again, and the misses, for each order of the new build at *path*."""
    old = program.directory / "plain.bfd"
    before = traced(program, old, program.train, "train").path
    own = traced(program, path, program.train, f"{path.name}.train").path
    test = traced(program, path, program.test, f"{path.name}.test")
    file, functions = find(test.description.files, str(path)), read_functions(path)
    yield f"the linker's | | {' | '.join(map(cell, misses_of(test, file, original(test, file), functions.text)))}"
    for blocks in (False, True):
        for trace, other in ((before, str(old)), (own, None)):
            budget = budget_of(windows=0)
            made = order_of_trace(trace, [], str(path), budget=budget, blocks=blocks, old_binary=other)
            title = f"{'blocks' if blocks else 'functions'}, of {'the old' if other else 'its own'} profile"
            result = ""
            if repeated := made.carried:
                result = f"{repeated.kept} of {repeated.ran} functions"
                if moved := repeated.moved:
                    result = f"{moved.kept:,} of {moved.ran:,} blocks"
            sequence = [placed.index for placed in made.plan.placed]
            placement = ordered(test, file, "order", functions, sequence, made.blocks)
            yield f"{title} | {result} | {' | '.join(map(cell, misses_of(test, file, placement, functions.text)))}"


if __name__ == "__main__":
    main()
