"""From a name to reports: open a file, and check it or the programs in it.

The first bytes of a file decide what it is, never its name.  A file that was *named* on the command line gets a report,
if only one that says why it could not be checked.  A file that is merely found in a directory or an archive is counted
if it is not a program.
"""

import os
import stat
from collections import Counter
from collections.abc import Iterator

from hugealign.diagnosis.refusal import diagnosed
from hugealign.diagnosis.values import Diagnosis
from hugealign.elf.image import ET_CORE, ET_REL, type_of
from hugealign.io.descriptors import using
from hugealign.records import Record
from hugealign.verification.archives import OBJECT, OTHER, kinds
from hugealign.verification.checking import check_fd
from hugealign.verification.inputs import Task
from hugealign.verification.result import FileReport
from hugealign.verification.rules import Policy


class Requirements(Record):
    """The options that the check of one file needs; workers receive no more."""

    policy: Policy
    max_unpacked: int | None = None


def check_path(task: Task, requirements: Requirements, passed: "Counter[str]") -> Iterator[FileReport]:
    """Yield the report on the file that *task* names, or on each program in it if it is an archive.

    *passed* counts the skipped files by kind.
    """
    path = task.path
    if task.problem:
        yield FileReport(path, problem=task.problem)
        return
    try:
        opened, regular = _opened(path)
    except (OSError, ValueError) as error:
        yield FileReport(path, problem=diagnosed(path, error))
        return
    with using(opened) as fd:
        try:
            head = os.pread(fd, kinds.HEAD, 0) if regular else b""
        except OSError as error:
            yield FileReport(path, problem=diagnosed(path, error))
            return
        what = kinds.kind(head)
        if what == kinds.ELF or (task.named and not what):
            e_type = 0 if task.named else type_of(head)
            if e_type in (ET_REL, ET_CORE):
                passed[OBJECT if e_type == ET_REL else OTHER] += 1
            else:
                yield check_fd(fd, path, requirements.policy)
        elif not what:
            passed[OTHER] += 1
        else:
            yield from _archive(fd, task, requirements, passed)


def _opened(path: str) -> tuple[int, bool]:
    """Open the file at *path* for reading, and return whether it is regular; if not, its descriptor cannot be read.

    Opening a device can do something, and opening a FIFO lets its writer go on.
    """
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(place).st_mode):
        return place, False
    try:
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC), True
    except FileNotFoundError:  # without /proc
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        return fd, stat.S_ISREG(os.fstat(fd).st_mode)
    finally:
        os.close(place)


def _archive(fd: int, task: Task, requirements: Requirements, passed: "Counter[str]") -> Iterator[FileReport]:
    # Heavy, and not needed for plain files.
    from hugealign.io.unpacking import Budget
    from hugealign.verification.archives.programs import programs

    own: Counter[str] = Counter()
    reports = 0
    budget = Budget(os.fstat(fd).st_size, requirements.max_unpacked)
    for program in programs(fd, task.path, budget, own, named=task.named):
        reports += 1
        if program.problem:
            yield FileReport(program.path, problem=program.problem)
        else:
            yield check_fd(program.fd, program.path, requirements.policy)
    passed.update(own)
    if task.named and not reports:
        yield FileReport(task.path, problem=empty(task.path, own))


def empty(path: str, passed: "Counter[str]") -> Diagnosis:
    """Return the diagnosis that *path* holds no program, with the counts of what was *passed* over in it."""
    return Diagnosis("file.empty", path, dict(passed))
