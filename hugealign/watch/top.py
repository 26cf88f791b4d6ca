"""`hugealign top` as functions: the large text of all processes, by program, with the action for each."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from hugealign.process import groups
from hugealign.process.texts import control_groups
from hugealign.system import kernel
from hugealign.system.budget import Budget, ask, of_this_machine
from hugealign.watch import rows, survey
from hugealign.watch.actions import Action, Actions, together
from hugealign.watch.rows import Group, ProgramRow

_PAUSE = 5.0  # seconds between looks
_SHARE = 100  # a look may take one per cent of one processor


@dataclass(frozen=True, slots=True)
class TopOptions:
    """How to look: *interval* seconds between looks, None for a pace that costs at most one per cent of a processor.

    With *containers*, a program in two containers makes two rows.  *page_size* is the size of a window in bytes, 0 for
    the kernel's huge page size.
    """

    interval: float | None = None
    containers: bool = False
    page_size: int = 0

    @property
    def window(self) -> int:
        """The size of a window in bytes."""
        return self.page_size or kernel.huge_page_size()


@dataclass(frozen=True, slots=True)
class Machine:
    """The text that all processes run from, at *time* (seconds since 1970).

    *rows* begin with the most to gain.  *processes* have large text; *others* have less than a window of it in each
    file, kernel threads among them; *hidden* may not be looked at without more privileges, and *silent* are the PIDs
    that did not answer.  *budget* has the processor's entries for 2 MiB pages.  *seconds* is the duration of the look;
    *interval* is the time over which processor time was counted, 0 for the life of each process; *privileged*: root
    looked.
    """

    rows: tuple[ProgramRow, ...]
    processes: int
    others: int
    hidden: int
    silent: tuple[int, ...]
    budget: Budget
    page_size: int
    time: float
    seconds: float
    interval: float
    privileged: bool


def top(options: TopOptions | None = None) -> Machine:
    """Look at all processes once; with an interval in *options*, twice, to count processor time in between."""
    options = options or TopOptions()
    looks = watch(options)
    first = next(looks)
    return first if options.interval is None else next(looks)


def watch(options: TopOptions | None = None) -> Iterator[Machine]:
    """Yield the state of the machine again and again, forever."""
    options = options or TopOptions()
    window = options.window
    asked = ask()  # the processor answers while the survey runs
    began = time.process_time()
    found, before = survey.survey(window, window), None
    budget = of_this_machine(asked)
    actions = Actions(window, budget.windows)
    while True:
        yield _machine(options, found, before, budget, actions)
        cost = time.process_time() - began
        time.sleep(max(_PAUSE, _SHARE * cost) if options.interval is None else options.interval)
        began = time.process_time()
        before, found = found, survey.survey(window, window)


def _machine(
    options: TopOptions, found: survey.Survey, before: survey.Survey | None, budget: Budget, actions: Actions
) -> Machine:
    used = rows.shares(found.executed, before.executed if before else None, found.at, before.at if before else 0.0)
    containers = (
        {one.pid: groups.container(control_groups(one.pid)) for one in found.executed} if options.containers else None
    )
    all_groups = rows.group(found.executed, used, containers)
    advice = together([actions.of(group) for group in all_groups])
    lines = [_row(group, action, options.window) for group, action in zip(all_groups, advice, strict=True)]
    return Machine(
        rows.ranked(lines),
        len(found.executed),
        found.others,
        found.hidden,
        found.silent,
        budget,
        options.window,
        time.time(),
        found.seconds,
        found.at - before.at if before else 0.0,
        os.geteuid() == 0,
    )


def _row(group: Group, action: Action, window: int) -> ProgramRow:
    parts = [part for _, part in group.members]
    possible, huge = sum(part.possible(window) for part in parts), sum(part.huge(window) for part in parts)
    return ProgramRow(
        group.key.program,
        group.key.container,
        group.key.kind.value,
        group.key.part,
        tuple(process.pid for process, _ in group.members),
        group.cpu,
        sum(part.text for part in parts),
        huge * window,
        huge,
        possible,
        max(huge, action.reachable),
        action.reason,
        action.command,
    )
