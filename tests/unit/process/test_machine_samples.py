"""Samples of the whole machine: to whom a process counts."""

import os
import subprocess

from hugealign.process.machine_samples import _Everything

_PROGRAM = "/srv/program"


def _started(records: _Everything, pid: int) -> None:
    """Note what the kernel tells of a start: another program, whose text is mapped."""
    records.executed(pid)
    records.mapped(pid, 1 << 22, 1 << 21, 0, _PROGRAM, 7)
    records.fault(records.space(pid), (1 << 22) + 4096)


def test_a_program_that_ended_before_its_owner_was_known_counts_to_nobody() -> None:
    """It may be a container's, whose files are not the machine's."""
    with subprocess.Popen(["true"]) as child:
        child.wait()
    records = _Everything()
    records.space(child.pid)
    _started(records, child.pid)
    assert not records.uses


def test_a_program_that_ended_counts_to_those_who_started_its_parent() -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    records = _Everything()
    parent = records.space(os.getppid())
    records.spaces[child.pid] = parent.copy()
    _started(records, child.pid)
    (use,) = (use for use in records.uses.values() if use.program == _PROGRAM)
    assert (use.owner, use.starts, len(use.faults), use.files) == (parent.owner, 1, 1, {_PROGRAM: 7})


def test_the_look_itself_counts_to_nobody() -> None:
    records = _Everything()
    records.mapped(os.getpid(), 1 << 22, 1 << 21, 0, _PROGRAM, 7)
    assert not records.uses
