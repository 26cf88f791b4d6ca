"""The cost of blocks: ``python -m lab.bench.blocks [gawk|clang]``.

It times `order --blocks` of a trace, compiling with its list, and linking in its order with LLD, plain and divided in
turn.  The programs come from `lab.bench.peers`, which has to run first.  Of clang, it compiles a few sources.
"""

import argparse
import os
from functools import partial
from pathlib import Path

from lab.bench.peers import heldout, llvm
from lab.bench.peers.program import LLD, Program
from lab.bench.peers.programs import PROGRAMS
from lab.bench.timing import Cost, Table, cost, in_turn
from tests.support import HUGEALIGN

ROUNDS = 7
_SOURCES = 2  # of clang: evenly spaced, by name, among those that are recompiled

Command = tuple[list[str], Path]


def gawk(program: Program) -> list[Command]:
    """Return the command that compiles all of gawk, still without a list."""
    files, flags = heldout.gawk_units(program.directory)
    return [(["clang-19", "-w", "-O2", "-fPIE", *flags, "-c", *map(str, files)], program.directory / "timed.units")]


def clang(program: Program) -> list[Command]:
    """Return the commands that compile a few of clang's sources."""
    members = sorted(path.stem for path in program.directory.glob("*-*.o"))
    known = {llvm.stem(member): result for member, result in llvm.commands(llvm.LLVM_19).items()}
    step = len(members) // _SOURCES
    chosen = [known[member] for member in members[step // 2 :: step][:_SOURCES]]
    return [([*words, "-O2", "-w", "-o", os.devnull], Path(place)) for words, place in chosen]


COMPILED = {"gawk": gawk, "clang": clang}


def main() -> None:
    """Time all three, each in turn with its baseline, and print."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.blocks")
    parser.add_argument("program", nargs="?", default="gawk", choices=COMPILED)
    program = PROGRAMS[parser.parse_args().program]()
    directory, order = program.directory, program.directory / "timed.blocks.order"
    (directory / "timed.units").mkdir(exist_ok=True)
    print(f"load {os.getloadavg()[0]:.1f}")
    words = ["order-trace", "--blocks", "train.trace", "-b", "plain.bfd", "-o", order.name, "--windows", "7"]
    spent = cost([str(HUGEALIGN), *words], directory)
    print(f"order --blocks: {spent.wall:.1f} s, {spent.cpu:.1f} s of processor time, {spent.memory} MiB")
    front = [str(HUGEALIGN), f"--profile={order}"]
    assert program.divided is not None
    parts = program.divided(order)
    table = Table()
    commands = COMPILED[program.name](program)
    compiles = [partial(_all, commands, [], ["-ffunction-sections"]), partial(_all, commands, front, [])]
    plain = [program.driver, *LLD, *program.words, "-o", "timed.out"]
    divided = [*front, program.driver, *LLD, *parts, "-o", "timed.out"]
    links = [partial(cost, plain, directory), partial(cost, divided, directory)]
    for title, ways in ((f"compile {program.name} with a list of blocks", compiles), (f"link {program.name}", links)):
        table.both(title, *in_turn(ways, ROUNDS))


def _all(commands: list[Command], before: list[str], flag: list[str]) -> Cost:
    spent = [cost([*before, *words, *flag], place) for words, place in commands]
    return Cost(sum(item.wall for item in spent), sum(item.cpu for item in spent))


if __name__ == "__main__":
    main()
