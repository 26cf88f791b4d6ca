"""What blocks cost: ``python -m tests.bench.blocks``.  `order --blocks` of a trace, compiling with its list, linking.

gawk, as `tests.bench.peers` compiles and traces it, which has to have run: plain, and divided.
"""

import resource
from functools import partial

from tests.bench.peers.heldout import gawk_units
from tests.bench.peers.program import LLD, WORK
from tests.bench.timing import HEADER, cost, in_turn, show
from tests.support import HUGEALIGN

ROUNDS = 7


def main() -> None:
    """Time all three in turn with what they are held against, and print."""
    directory = WORK / "gawk"
    files, flags = gawk_units(directory)
    order = directory / "timed.blocks.order"
    words = ["order", "--blocks", "--trace", "train.trace", "-b", "plain.bfd", "-o", order.name, "--cpu", "skylake"]
    spent = cost([str(HUGEALIGN), *words], directory)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(f"order --blocks: {spent.wall:.1f} s, {spent.cpu:.1f} s of processor time, {memory} MiB")
    front: tuple[str, ...] = (str(HUGEALIGN), f"--profile={order}")
    compiler = ("clang-19", "-w", "-O2", "-fPIE", *flags, "-c", *map(str, files))
    objects = [f"{path.stem}.o" for path in files]
    ways = {}
    for name, before, flag in (("plain", (), ["-ffunction-sections"]), ("divided", front, [])):
        place = directory / f"timed.{name}"
        place.mkdir(exist_ok=True)
        link = [*before, "gcc", *LLD, *objects, "-lm", "-ldl", "-o", "out"]
        ways[name] = partial(cost, [*before, *compiler, *flag], place), partial(cost, link, place)
    print(HEADER)
    for title, number in (("compile gawk with a list of blocks", 0), ("link gawk in an order of blocks", 1)):
        costs = in_turn([way[number] for way in ways.values()], ROUNDS)
        show(title, *([one.wall * 1000 for one in those] for those in costs))
        show("  processor time", *([one.cpu * 1000 for one in those] for those in costs))


if __name__ == "__main__":
    main()
