"""Fuzzing `fix` with the mutations of `tests.fuzz.elf`: ``python -m tests.fuzz.fix --count 50000 --seed 1``.

Each mutated file is planned for, written and undone.  Status 1 if anything but an error of ours was raised, if the
output is not the input but for what was planned, or if undoing does not give the input back.  ``--only N`` does one
case again.
"""

import os
import random
import resource
import sys
import time
from dataclasses import dataclass, field

from hugealign.elf.image import read_image
from hugealign.errors import HugealignError
from hugealign.fix import examine, writing
from hugealign.fix.output import Output, fixed, original, reader
from hugealign.fix.plan import LEVELS
from tests.fuzz import command, elf

SECONDS_LIMIT, MEMORY_LIMIT = 2.0, 300 << 20
_PAGE = 1 << 16  # small windows, so that the files are small


def check(fd: int, level: str) -> str:
    """Fix the file behind *fd* in memory and undo that; return what became of it.  Raises AssertionError."""
    try:
        image = examine.read(fd)
        plan = examine.plan(fd, image, _PAGE, level)
        if not plan.steps:
            return "nothing to do"
        output = fixed(reader(fd), image, plan)
    except (HugealignError, OSError):
        return "refused"
    new, back = os.memfd_create("new"), os.memfd_create("back")
    try:
        writing.compose(fd, new, output)
        assert_planned(fd, new, output)
        again = read_image(new)
        writing.compose(new, back, original(reader(new), again))
        assert contents(back) == contents(fd), "undoing gives another file"
    finally:
        os.close(new)
        os.close(back)
    return "fixed"


def assert_planned(old: int, new: int, output: Output) -> None:
    """Hold the new file against the pieces of the old one; what is written over them is passed over."""
    assert os.fstat(new).st_size == output.size
    for piece in output.pieces:
        expected = bytearray(os.pread(old, piece.size, piece.source))
        assert len(expected) == piece.size
        for offset, data in output.writes:
            start, end = max(offset, piece.target), min(offset + len(data), piece.target + piece.size)
            if start < end:
                assert (offset, len(data)) == (0, len(output.writes[-1][1])), "more than the headers is written over"
                expected[start - piece.target : end - piece.target] = data[start - offset : end - offset]
        assert os.pread(new, piece.size, piece.target) == expected, "contents differ"


def contents(fd: int) -> bytes:
    """Return the file behind *fd*."""
    return os.pread(fd, os.fstat(fd).st_size, 0)


@dataclass(slots=True)
class Result:
    """What a run showed.  Times in seconds, memory in bytes."""

    counts: dict[str, int] = field(default_factory=dict)
    slowest: float = 0.0
    slowest_case: int = 0
    memory: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether anything is not as it must be."""
        return bool(self.failures) or self.slowest > SECONDS_LIMIT or self.memory > MEMORY_LIMIT


def run(count: int, seed: int, first: int = 0) -> Result:
    """Make and check *count* files, numbered from *first*."""
    made = [s for s in elf.subjects(elf.corpus()) if s.image.is64]
    result = Result()
    for case in range(first, first + count):
        chance = random.Random(f"{seed}/{case}")
        subject = made[case % len(made)]
        elf.Mutator(chance, subject).mutate()
        before = time.perf_counter()
        try:
            kind = check(subject.fd, chance.choice(LEVELS))
        except Exception as error:  # noqa: BLE001  # that is what is looked for
            result.failures.append(f"case {case} ({subject.name}): {type(error).__name__}: {error}")
            kind = "failed"
        result.counts[kind] = result.counts.get(kind, 0) + 1
        took = time.perf_counter() - before
        if took > result.slowest:
            result.slowest, result.slowest_case = took, case
        subject.restore()
    result.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    elf.close(made)
    return result


def main() -> int:
    """Run from the command line."""
    count, seed, first = command.cases(__doc__)
    result = run(count, seed, first)
    command.show(result.failures)
    counts = ", ".join(f"{number} {kind}" for kind, number in sorted(result.counts.items()))
    print(
        f"seed {seed}: {counts}; slowest {result.slowest * 1000:.1f} ms (case {result.slowest_case}); "
        f"peak memory {result.memory >> 20} MiB"
    )
    return int(result.failed)


if __name__ == "__main__":
    sys.exit(main())
