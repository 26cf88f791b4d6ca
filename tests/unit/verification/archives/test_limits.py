"""What an archive may cause: a share for its size, one allowance for the command, and the limit that the user sets."""

from collections.abc import Callable

import pytest

from hugealign.verification.archives.limits import (
    COPIED,
    MEMBERS,
    PROCESSES,
    UNPACKED,
    Allowance,
    LimitError,
    Work,
    WorkKind,
)

MIB = 1 << 20


def processes(work: Work, count: int) -> None:
    for _ in range(count):
        work.process()


PAY: dict[WorkKind, Callable[[Work, int], None]] = {
    UNPACKED: Work.unpacked,
    COPIED: Work.copied,
    MEMBERS: Work.members,
    PROCESSES: processes,
}


@pytest.mark.parametrize("kind", PAY)
def test_the_share_and_the_allowance_and_not_one_more(kind: WorkKind) -> None:
    size = 64 << 10
    work = Work(size, 1 << 60, Allowance())
    PAY[kind](work, kind.least + size * kind.times // kind.per + kind.allowance)
    with pytest.raises(LimitError, match=f"it {kind.what} for its size of 64.0 KiB; unpack it first"):
        PAY[kind](work, 1)


@pytest.mark.parametrize("kind", PAY)
def test_the_allowance_is_one_for_all_files(kind: WorkKind) -> None:
    allowance = Allowance()
    PAY[kind](Work(0, 1 << 60, allowance), kind.least + kind.allowance - 1)
    PAY[kind](Work(0, 1 << 60, allowance), kind.least + 1)
    with pytest.raises(LimitError):
        PAY[kind](Work(0, 1 << 60, allowance), kind.least + 1)
    PAY[kind](Work(kind.per, 1 << 60, allowance), kind.least + 1)  # a share of its own is left to every file


@pytest.mark.parametrize("pay", [Work.unpacked, Work.copied])
def test_the_limit_comes_first(pay: Callable[[Work, int], None]) -> None:
    work = Work(1 << 40, MIB, Allowance())
    pay(work, MIB)
    with pytest.raises(LimitError, match=r"more than 1\.0 MiB; --max-unpacked sets the limit"):
        pay(work, 1)
