"""Time builds by turns, each from a copy of its own of each placement."""

import dataclasses
import os
import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack, chdir
from pathlib import Path

from hugealign.environment import as_given
from hugealign.io.regular import opened
from hugealign.measuring.interval import Ratio, effects, of_copies
from hugealign.measuring.runner import Overlay, Runner, Work
from hugealign.run.copies import StagedFile
from lab.bench.times.builds import Build, Run


@dataclasses.dataclass(frozen=True, slots=True)
class Timed:
    """The time of a build: *seconds* of a run, *huge* windows, and the ratio to the first build, none for that."""

    seconds: float
    huge: int
    ratio: Ratio | None


def time_all(
    built: Sequence[Build], test: Run, directory: Path, rounds: int, say: Callable[[str], object]
) -> list[Timed]:
    """Do the run *test* with all of *built* in *directory*, in random order, *rounds* times.

    The first runs on small pages, the others on huge ones.

    Each placement of a build is a copy.  All lie over the first one's path, so that their processes are alike.
    """
    place = str(built[0].files[0])
    work = Work(test.words(place), as_given(), ())
    with ExitStack() as stack, chdir(directory):
        runners = [
            stack.enter_context(Runner(work, [Overlay(place, _staged(stack, path))], huge=build is not built[0]))
            for build in built
            for path in build.files
            for _ in range(2)
        ]
        for runner in runners:
            runner.run()
        costs = []
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            order = list(range(len(runners)))
            random.shuffle(order)
            cost = {at: runners[at].run().cpu for at in order}
            costs.append([cost[at] for at in range(len(runners))])
        huge = [runner.huge for runner in runners]
    size = len(runners) // len(built)
    sides = [slice(at, at + size) for at in range(0, len(runners), size)]
    found = effects(costs)
    first = found[sides[0]]
    return [
        Timed(
            min(sum(cost[side]) / size for cost in costs),
            min(huge[side]),
            None if side is sides[0] else of_copies(first, found[side]),
        )
        for side in sides
    ]


def _staged(stack: ExitStack, path: Path) -> StagedFile:
    descriptor = stack.enter_context(opened(str(path)))
    return StagedFile(str(path), descriptor, os.fstat(descriptor), 0)
