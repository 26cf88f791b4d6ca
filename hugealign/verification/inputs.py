"""From the words of the command line to reports: files, directories, archives, lists of names.

What a file is, its first bytes say, never its name.  A thing that was *named* on the command line gets a report, if
only one that says why it could not be checked; what merely lies in a directory or an archive is counted if it is
no program.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from hugealign.archives import kinds
from hugealign.archives.counts import Counts
from hugealign.archives.work import Allowance, Work
from hugealign.elf.image import ET_CORE, ET_REL
from hugealign.errors import NumberFormatError, UsageError
from hugealign.numbers import decimal
from hugealign.verification.checking import check_fd
from hugealign.verification.model import FileReport
from hugealign.verification.rules import Policy

MAX_UNPACKED = 16 << 30  # bytes that one named archive may unpack to
_BATCH = 32  # files that a worker gets at once
_BATCH_BYTES = 1 << 24  # unless they are large
_SMALLEST = 52  # bytes: the ELF header
_NAME_LIMIT = 1 << 16  # bytes of one name in a list; the kernel takes 4096


class Task(NamedTuple):
    """A file to be checked, and whether it was named or found in a directory."""

    path: str
    named: bool


class Settings(NamedTuple):
    """What is the same for every file."""

    policy: Policy
    max_unpacked: int
    allowance: Allowance


class Begin(NamedTuple):
    """A directory that was named begins here."""

    path: str


class End(NamedTuple):
    """It ends here."""

    path: str


#: What the list of inputs consists of: files to be checked by the batch, and marks and reports between them.
Step = list[Task] | Begin | End | FileReport | Counts


def check_all(
    paths: Iterable[str],
    policy: Policy,
    *,
    recursive: bool = False,
    jobs: int = 1,
    max_unpacked: int = MAX_UNPACKED,
    counts: Counts | None = None,
) -> Iterator[FileReport]:
    """Yield a report per program in *paths*, in their order, and a report on each path that holds none.

    *recursive* allows directories; *jobs* processes check at a time; *counts* takes up what was passed over.
    """
    counts = Counts() if counts is None else counts
    settings = Settings(policy, max_unpacked, Allowance())
    steps = _steps(paths, recursive=recursive)
    if jobs > 1:
        from hugealign.verification.parallel import results

        done = results(steps, settings, jobs)
    else:
        done = _serial(steps, settings)
    before, reports = Counts(), 0
    for step in done:
        if isinstance(step, Counts):
            counts.add(step)
        elif isinstance(step, Begin):
            before, reports = Counts(counts.values()), 0
        elif isinstance(step, FileReport):
            reports += 1
            yield step
        elif not reports:
            yield FileReport(step.path, reason=_nothing(counts.since(before)))


def check_path(task: Task, settings: Settings, counts: Counts) -> Iterator[FileReport]:
    """Yield what is known of the file that *task* names, or of the programs in it if it is an archive."""
    path, named = task
    try:
        # O_NONBLOCK: opening a FIFO that nobody writes to must not hang; without effect on regular files.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        yield FileReport(path, reason=_cannot_open(path, error))
        return
    try:
        what = _kind(fd)
        if isinstance(what, OSError):
            yield FileReport(path, reason=what.strerror or str(what))
        elif what == kinds.ELF or (named and not what):
            head = b"" if named else os.pread(fd, 18, 0)
            if head and kinds.elf_type(head) == ET_REL:
                counts.objects += 1
            elif head and kinds.elf_type(head) == ET_CORE:
                counts.other += 1
            else:
                yield check_fd(fd, path, settings.policy)
        elif not what:
            counts.other += 1
        else:
            yield from _archive(fd, task, settings, counts)
    finally:
        os.close(fd)


def names_from(stream: BinaryIO, null: bool) -> Iterator[str]:
    """Yield the names in *stream*, one per line, or if *null* each ended by a NUL byte.  Raises UsageError."""
    end = b"\0" if null else b"\n"
    rest = b""
    while data := stream.read1(1 << 16) if hasattr(stream, "read1") else stream.read(1 << 16):
        *names, rest = (rest + data).split(end)
        yield from (os.fsdecode(name) for name in names if name)
        if len(rest) > _NAME_LIMIT:
            raise UsageError("standard input is no list of names: one is longer than 64 KiB")
    if rest:
        yield os.fsdecode(rest)


def parse_jobs(text: str) -> int:
    """Return how many processes *text* asks for; ``0`` and ``auto``: one per usable CPU.  Raises UsageError."""
    if text in ("0", "auto"):
        return len(os.sched_getaffinity(0))
    try:
        return decimal(text, 999)
    except NumberFormatError:
        raise UsageError("--jobs: not a number from 1 to 999, or auto") from None


def _serial(steps: Iterable[Step], settings: Settings) -> Iterator[Begin | End | FileReport | Counts]:
    for step in steps:
        if isinstance(step, list):
            counts = Counts()
            for task in step:
                yield from check_path(task, settings, counts)
            yield counts
        else:
            yield step


def _steps(paths: Iterable[str], *, recursive: bool) -> Iterator[Step]:
    """Yield the inputs in order: marks around each directory, batches of files."""
    batch: list[Task] = []
    size = 0
    for path in paths:
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            status = None  # check_path says why
        if status and stat.S_ISDIR(status.st_mode):
            if batch:
                yield batch
            batch, size = [], 0
            if recursive:
                yield Begin(path)
                yield from _walk(path)
                yield End(path)
            else:
                yield FileReport(path, reason="a directory; give -r to check what is in it")
            continue
        batch.append(Task(path, named=True))
        size += status.st_size if status else 0
        if len(batch) >= _BATCH or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _walk(top: str) -> Iterator[list[Task] | FileReport | Counts]:
    """Yield the regular files below *top*, sorted within each directory; symbolic links are not followed."""
    batch: list[Task] = []
    size = 0
    counts = Counts()
    seen: set[tuple[int, int]] = set()
    waiting = [top]
    while waiting:
        path = waiting.pop()
        try:
            status = os.lstat(path) if path is not top else os.stat(path)
            if stat.S_ISDIR(status.st_mode):
                waiting += [os.path.join(path, name) for name in sorted(os.listdir(path), reverse=True)]
                continue
        except OSError as error:
            if batch:
                yield batch
            batch, size = [], 0
            yield FileReport(path, reason=error.strerror or str(error))
            continue
        if not stat.S_ISREG(status.st_mode):
            continue
        if status.st_size < _SMALLEST:
            counts.other += 1
            continue
        if status.st_nlink > 1:
            if (status.st_dev, status.st_ino) in seen:
                counts.links += 1
                continue
            seen.add((status.st_dev, status.st_ino))
        batch.append(Task(path, named=False))
        size += status.st_size
        if len(batch) >= _BATCH or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
    yield counts


def _kind(fd: int) -> str | OSError:
    """Return what is behind *fd*, as `kinds.kind` has it; empty for anything that is not a regular file."""
    try:
        return kinds.kind(os.pread(fd, kinds.HEAD, 0)) if stat.S_ISREG(os.fstat(fd).st_mode) else ""
    except OSError as error:
        return error


def _archive(fd: int, task: Task, settings: Settings, counts: Counts) -> Iterator[FileReport]:
    from hugealign.archives.look import Look  # heavy, and not needed for plain files

    own = Counts()
    reports = 0
    work = Work(os.fstat(fd).st_size, settings.max_unpacked, settings.allowance)
    for found in Look(work, own).archive(fd, task.path, named=task.named):
        reports += 1
        if found.reason:
            yield FileReport(found.path, reason=found.reason)
        else:
            yield check_fd(found.fd, found.path, settings.policy)
    counts.add(own)
    if task.named and not reports:
        yield FileReport(task.path, reason=_nothing(own))


def _cannot_open(path: str, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError) and path.isascii() and path.isdigit():
        return f"no such file; for the process of that number: hugealign ps {path}"
    return getattr(error, "strerror", None) or str(error)


def _nothing(counts: Counts) -> str:
    skipped = counts.skipped()
    return f"no program or shared library in it{f' ({skipped})' if skipped else ''}"
