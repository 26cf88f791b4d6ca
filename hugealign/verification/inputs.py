"""From the words of the command line to the files to check: directories, lists of names, batches."""

import os
import stat
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from hugealign.errors import HugealignError, NumberFormatError, UsageError, cause
from hugealign.io.numbers import decimal
from hugealign.verification.archives.kinds import LINK, OTHER, Counts
from hugealign.verification.model import FileReport

_BATCH = 32  # files that a worker gets at once
_BATCH_BYTES = 1 << 24  # unless they are large
_SMALLEST = 52  # bytes: the ELF header
_NAME_LIMIT = 1 << 16  # bytes of one name in a list; the kernel takes 4096


class Task(NamedTuple):
    """A file to check, and whether it was named or found in a directory."""

    path: str
    named: bool


class Begin(NamedTuple):
    """A directory that was named begins here."""

    path: str


class End(NamedTuple):
    """That directory ends here."""

    path: str


#: The parts of the list of inputs: batches of files to check, and marks and reports between them.
Step = list[Task] | Begin | End | FileReport | Counts


def names_from(stream: BinaryIO, null: bool) -> Iterator[str]:
    """Yield the names in *stream*, one per line, or if *null* each ended by a NUL byte.  Raises HugealignError."""
    end = b"\0" if null else b"\n"
    rest = b""
    while data := _read(stream):
        *names, rest = (rest + data).split(end)
        yield from (os.fsdecode(name) for name in names if name)
        if len(rest) > _NAME_LIMIT:
            raise UsageError("standard input is not a list of names: one is longer than 64 KiB")
    if rest:
        yield os.fsdecode(rest)


def _read(stream: BinaryIO) -> bytes:
    try:
        return stream.read1(1 << 16) if hasattr(stream, "read1") else stream.read(1 << 16)
    except OSError as error:
        raise HugealignError(f"standard input: cannot be read: {cause(error)}") from None


def parse_jobs(text: str, option: str = "--jobs") -> int:
    """Return how many processes *text*, the value of *option*, asks for; ``0`` and ``auto``: one per usable CPU.

    Raises UsageError.
    """
    if text in ("0", "auto"):
        return len(os.sched_getaffinity(0))
    try:
        return decimal(text, 999)
    except NumberFormatError:
        raise UsageError(f"{option}: not a number from 1 to 999, or auto") from None


def steps(paths: Iterable[str], *, recursive: bool) -> Iterator[Step]:
    """Yield the inputs in order: marks around each directory, batches of files."""
    batch: list[Task] = []
    size = 0
    for found in _inputs(paths, recursive=recursive):
        if isinstance(found, Sized):
            batch.append(found.task)
            size += found.size
            if len(batch) < _BATCH and size < _BATCH_BYTES:
                continue
        if batch:
            yield batch
            batch, size = [], 0
        if not isinstance(found, Sized):
            yield found
    if batch:
        yield batch


class Sized(NamedTuple):
    """A file to check, and its size in bytes, 0 if unknown."""

    task: Task
    size: int


def _inputs(paths: Iterable[str], *, recursive: bool) -> Iterator[Sized | Begin | End | FileReport | Counts]:
    for path in paths:
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            yield Sized(Task(path, named=True), 0)  # check_path says why
            continue
        if not stat.S_ISDIR(status.st_mode):
            yield Sized(Task(path, named=True), status.st_size)
        elif recursive:
            yield Begin(path)
            yield from below(path)
            yield End(path)
        else:
            yield FileReport(path, reason="a directory; give -r to check what is in it")


def below(top: str) -> Iterator[Sized | FileReport | Counts]:
    """Yield the regular files below *top*, sorted within each directory; symbolic links are not followed.

    A report says why a file or directory cannot be looked at; the counts of what was passed over come last.
    """
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
            yield FileReport(path, reason=cause(error))
            continue
        if not stat.S_ISREG(status.st_mode):
            continue
        if status.st_size < _SMALLEST:
            counts[OTHER] += 1
            continue
        if status.st_nlink > 1:
            if (status.st_dev, status.st_ino) in seen:
                counts[LINK] += 1
                continue
            seen.add((status.st_dev, status.st_ino))
        yield Sized(Task(path, named=False), status.st_size)
    yield counts
