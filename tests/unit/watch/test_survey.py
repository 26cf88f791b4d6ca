"""Looking at all processes: some are gone, some are not ours, some never answer."""

import os
import threading

from hugealign.errors import HugealignError
from hugealign.process.processes import Process
from hugealign.watch.survey import survey


def executed(pid: int) -> Process:
    return Process(pid, "app", "/srv/app", (0, 0), ())


def test_each_process_is_counted_for_what_it_is() -> None:
    def look(pid: int) -> Process | None:
        if pid == 2:
            raise ProcessLookupError
        if pid == 3:
            raise PermissionError
        if pid == 4:
            raise HugealignError("gone")
        return executed(pid) if pid in (1, os.getpid()) else None

    result = survey([1, 2, 3, 4, 5, os.getpid()], look)
    assert [item.pid for item in result.executed] == [1]
    assert (result.others, result.hidden, result.silent) == (2, 1, ())  # we are not shown to ourselves


def test_process_that_never_answers_is_named_and_the_others_are_seen() -> None:
    never = threading.Event()

    def look(pid: int) -> Process | None:
        if pid in (2, 4):
            never.wait(20)
        return executed(pid)

    result = survey([1, 2, 3, 4, 5], look, patience=0.05)
    never.set()
    assert [item.pid for item in result.executed] == [1, 3, 5]
    assert result.silent == (2, 4)


def test_many_that_never_answer_end_the_look() -> None:
    never = threading.Event()

    def look(_: int) -> Process | None:
        never.wait(20)
        return None

    result = survey(range(1, 1000), look, patience=0.01)
    never.set()
    assert len(result.silent) == 16


def test_a_hundred_thousand_processes() -> None:
    result = survey(range(1, 100_001), lambda pid: executed(pid) if pid % 1000 == 0 else None)
    assert (len(result.executed), result.others, result.silent) == (100, 99_900, ())
