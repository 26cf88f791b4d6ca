"""From a name to reports: open a file, and check it or the programs in it.

The first bytes of a file decide what it is, never its name.  A file that was *named* on the command line gets a report,
if only one that says why it could not be checked.  A file that is merely found in a directory or an archive is counted
if it is not a program.
"""

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from hugealign.elf.image import ET_CORE, ET_REL
from hugealign.errors import cause
from hugealign.io.descriptors import using
from hugealign.verification.archives import kinds
from hugealign.verification.archives.kinds import OBJECT, OTHER, Counts
from hugealign.verification.checking import check_fd
from hugealign.verification.inputs import Task
from hugealign.verification.model import FileReport
from hugealign.verification.rules import Policy

NO_PROGRAM = "no program or shared library in it"


class Terms(NamedTuple):
    """The settings that are the same for every file."""

    policy: Policy
    max_unpacked: int | None = None


def check_path(task: Task, terms: Terms, counts: Counts) -> Iterator[FileReport]:
    """Yield the report on the file that *task* names, or on each program in it if it is an archive."""
    path, named = task
    try:
        file = using(_opened(path))
    except (OSError, ValueError) as error:
        yield FileReport(path, reason=_cannot_open(path, error))
        return
    with file as fd:
        what = _kind(fd)
        if isinstance(what, OSError):
            yield FileReport(path, reason=cause(what))
        elif what == kinds.ELF or (named and not what):
            head = b"" if named else os.pread(fd, 18, 0)
            if head and kinds.elf_type(head) == ET_REL:
                counts[OBJECT] += 1
            elif head and kinds.elf_type(head) == ET_CORE:
                counts[OTHER] += 1
            else:
                yield check_fd(fd, path, terms.policy)
        elif not what:
            counts[OTHER] += 1
        else:
            yield from _archive(fd, task, terms, counts)


def _opened(path: str) -> int:
    """Open the file at *path* for reading; of anything but a regular file, return a descriptor that cannot be read.

    Opening a device can do something, and opening a FIFO lets its writer go on.
    """
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(place).st_mode):
        return place
    with using(place):
        try:
            return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # without /proc
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)


def _kind(fd: int) -> str | OSError:
    """Return what is behind *fd*, as `kinds.kind` has it; empty for anything that is not a regular file."""
    try:
        return kinds.kind(os.pread(fd, kinds.HEAD, 0)) if stat.S_ISREG(os.fstat(fd).st_mode) else ""
    except OSError as error:
        return error


def _archive(fd: int, task: Task, terms: Terms, counts: Counts) -> Iterator[FileReport]:
    # Heavy, and not needed for plain files.
    from hugealign.io.unpacking import Budget
    from hugealign.verification.archives.programs import programs

    own = Counts()
    reports = 0
    budget = Budget(os.fstat(fd).st_size, terms.max_unpacked)
    for program in programs(fd, task.path, budget, own, named=task.named):
        reports += 1
        if program.reason:
            yield FileReport(program.path, reason=program.reason)
        else:
            yield check_fd(program.fd, program.path, terms.policy)
    counts.update(own)
    if task.named and not reports:
        yield FileReport(task.path, reason=nothing(own))


def _cannot_open(path: str, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError) and path.isascii() and path.isdigit():
        return f"no such file; for the process of that number: hugealign ps {path}"
    return cause(error)


def nothing(counts: Counts) -> str:
    """Return the reason for a path that holds no program, with the *counts* of what was passed over in it."""
    skipped = counts.skipped()
    return f"{NO_PROGRAM}{f' ({skipped})' if skipped else ''}"
