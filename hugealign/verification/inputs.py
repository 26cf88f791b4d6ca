"""From the words of the command line to the files to check: directories, lists of names, batches."""

import contextlib
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from hugealign.diagnosis import render
from hugealign.diagnosis.refusal import diagnosed
from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.elf.coverage import text_size
from hugealign.elf.image import ELFMAG, ET_DYN, ET_EXEC, read_image
from hugealign.elf.machines import least_text, native
from hugealign.errors import HugealignError, NumberFormatError, UsageError, cause
from hugealign.io.numbers import decimal
from hugealign.io.progress import silent
from hugealign.io.regular import named, opened
from hugealign.io.units import printable
from hugealign.records import Record
from hugealign.verification.archives import LINK, OTHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

    from hugealign.io.places import Place

_BATCH = 32  # files that a worker gets at once
_BATCH_BYTES = 1 << 24  # unless they are large
_SMALLEST = 52  # bytes: the ELF header
_NAME_LIMIT = 1 << 16  # bytes of one name in a list; the kernel takes 4096


class Task(Record):
    """A file to check, and whether the user *named* it; or the *problem* with its name.

    *size* is in bytes, 0 if unknown.
    """

    path: str
    named: bool = False
    size: int = 0
    problem: Diagnosis | None = None


class Step(Record):
    """Files to check together, below the directory *top* if one was named; *last* are the last ones of that.

    *passed* counts the files skipped on the way.
    """

    tasks: list[Task]
    top: str = ""
    last: bool = False
    passed: "Counter[str] | None" = None


class TextLimit:
    """The bytes of text in all files that may become huge: *most*, None without a limit; *taken* is the sum so far."""

    def __init__(self, most: int | None) -> None:
        self.most = most
        self.taken = 0

    def fits(self, size: int) -> bool:
        """Return whether *size* bytes more may become huge."""
        return self.most is None or self.taken + size <= self.most

    def take(self, size: int) -> None:
        """Count *size* bytes."""
        self.taken += size


def names_from(stream: "BinaryIO", null: bool) -> Iterator[str]:
    """Yield the names in *stream*, one per line, or if *null* each ended by a NUL byte.  Raises HugealignError."""
    end = b"\0" if null else b"\n"
    rest = b""
    while data := _read(stream):
        *names, rest = (rest + data).split(end)
        yield from (os.fsdecode(name) for name in names if name)
        if len(rest) > _NAME_LIMIT:
            raise UsageError("standard input is not a list of names: a name is longer than 64 KiB")
    if rest:
        yield os.fsdecode(rest)


def _read(stream: "BinaryIO") -> bytes:
    try:
        return stream.read1(1 << 16) if hasattr(stream, "read1") else stream.read(1 << 16)
    except OSError as error:
        raise HugealignError(f"standard input: cannot be read: {cause(error)}") from None


def parse_jobs(text: str, option: str = "--jobs") -> int:
    """Return how many processes *text*, the value of *option*, requests; ``0`` and ``auto``: one per usable CPU.

    Raises UsageError.
    """
    if text in ("0", "auto"):
        return len(os.sched_getaffinity(0))
    try:
        return decimal(text, 999)
    except NumberFormatError:
        raise UsageError(f"{option}: not a number from 1 to 999, or auto") from None


def steps(paths: Iterable[str], *, recursive: bool) -> Iterator[Step]:
    """Yield the files of *paths* in order, in batches; a named directory begins and ends one."""
    batch: list[Task] = []
    for path in paths:
        if _full(len(batch), sum(task.size for task in batch)):
            yield Step(batch)
            batch = []
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            batch.append(Task(path, named=True))  # check_path says why
            continue
        if not stat.S_ISDIR(status.st_mode):
            batch.append(Task(path, named=True, size=status.st_size))
        elif not recursive:
            batch.append(Task(path, problem=Diagnosis("file.directory", path, {}, Remedy("recurse"))))
        else:
            if batch:
                yield Step(batch)
                batch = []
            yield from _tree(path)
    if batch:
        yield Step(batch)


def _tree(top: str) -> Iterator[Step]:
    passed: Counter[str] = Counter()
    batch: list[Task] = []
    size = 0
    for task in below(top, passed):
        batch.append(task)
        size += task.size
        if _full(len(batch), size):
            yield Step(batch, top)
            batch, size = [], 0
    yield Step(batch, top, last=True, passed=passed)


def _full(files: int, size: int) -> bool:
    return files >= _BATCH or size >= _BATCH_BYTES


def below(top: str, passed: "Counter[str]", *, every_name: bool = False) -> Iterator[Task]:
    """Yield the regular files below *top*, sorted within each directory; symbolic links are not followed.

    A file with several names (hard links) comes once, unless *every_name*.  The *problem* of a task says why a file or
    directory cannot be read; *passed* counts the skipped files.
    """
    seen: set[tuple[int, int]] = set()
    waiting = [top]
    while waiting:
        path = waiting.pop()
        try:
            status = os.lstat(path) if path is not top else os.stat(path)
            if stat.S_ISDIR(status.st_mode):
                directory = os.path.join(path, "")
                waiting += [directory + name for name in sorted(os.listdir(path), reverse=True)]
                continue
        except OSError as error:
            yield Task(path, problem=diagnosed(path, error))
            continue
        if not stat.S_ISREG(status.st_mode):
            continue
        if status.st_size < _SMALLEST:
            passed[OTHER] += 1
            continue
        if status.st_nlink > 1 and not every_name:
            if (status.st_dev, status.st_ino) in seen:
                passed[LINK] += 1
                continue
            seen.add((status.st_dev, status.st_ino))
        yield Task(path, size=status.st_size)


def programs(tops: Iterable[str], progress: Callable[[str], None] = silent) -> "list[Place]":
    """Return the programs and libraries among and below *tops* whose text is worth a window here, the most text first.

    A file among *tops* always counts as one.  The names of a file with several (hard links) come together.
    The walk only finds names: each is looked up again below the open directory, where no link leads out of it.
    *progress* receives the number of files.  Raises HugealignError if one of *tops* is missing, or is a directory that
    cannot be listed.
    """
    from hugealign.io.places import Directory, Place  # `verify` does not need them

    by_inode: dict[tuple[int, int], tuple[int, dict[str, Place]]] = {}
    count, least = 0, least_text(native())
    for top in tops:
        try:
            info = os.stat(top)
            directory = stat.S_ISDIR(info.st_mode)
            if directory:
                os.scandir(top).close()
            opened_top = Directory(top) if directory else None
        except (OSError, ValueError) as error:
            raise HugealignError(f"{printable(top)}: {render.text(diagnosed(top, error))}") from error
        if not opened_top:
            by_inode.setdefault((info.st_dev, info.st_ino), (info.st_size, {}))[1][top] = named(top)
            continue
        start = len(os.path.join(top, ""))
        for task in below(top, Counter(), every_name=True):
            count += 1
            progress(f"{count:,} files")
            if task.size < least:  # so is its text
                continue
            place = Place(opened_top, task.path[start:], task.path)
            with contextlib.suppress(HugealignError, OSError), opened(place) as fd:
                if os.pread(fd, 4, 0) != ELFMAG:
                    continue
                info = os.fstat(fd)
                if (key := (info.st_dev, info.st_ino)) not in by_inode:
                    image = read_image(fd)
                    size = text_size(image) if image.e_type in (ET_DYN, ET_EXEC) else 0
                    if size < least:
                        continue
                    by_inode[key] = size, {}
                by_inode[key][1][task.path] = place
    ordered = sorted(by_inode.values(), key=lambda item: (-item[0], *item[1]))
    return [place for _, names in ordered for place in names.values()]
