"""Workers that die at moments of their own."""

import multiprocessing
from collections.abc import Iterator

from hugealign.verification.inputs import Step, Task
from hugealign.verification.model import FileReport
from hugealign.verification.opening import Terms
from hugealign.verification.parallel import results
from hugealign.verification.rules import Policy


def test_a_worker_that_is_killed_while_it_waits_is_replaced() -> None:
    names = ["/bin/sh", "/bin/true", "/bin/false"]

    def steps() -> Iterator[Step]:
        yield [Task(names[0], named=True)]
        for child in multiprocessing.active_children():
            child.kill()
            child.join()
        yield [Task(name, named=True) for name in names[1:]]

    terms = Terms(Policy(), 1 << 30)
    found = [step for step in results(steps(), terms, 1) if isinstance(step, FileReport)]
    assert [(report.path, report.reason) for report in found] == [(name, "") for name in names]
