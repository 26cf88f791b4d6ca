"""`hugealign profile merge` as a function: it adds up the counts of many hosts, in memory for their distinct lines.

Adding up is associative and commutative, so any number of steps and machines may share it.  A host can lie, so a cap
limits the weight of a file.
"""

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from itertools import filterfalse, repeat

from hugealign.errors import HugealignError, UsageError
from hugealign.io.progress import silent
from hugealign.io.units import printable
from hugealign.profile import counts, read
from hugealign.profile.counts import Counts
from hugealign.profile.model import ProfileError

MOST_WEIGHT = 10**6


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """How files of counts are added up.

    Attributes:
        weights: Pairs of a pattern and a number: a file counts as often as the first pattern that matches its path or
            its name says, by default once; 0 leaves it out.
        cap: The most samples that a file may have, over all its builds, and the most of any other kind of count; one
            with more is scaled down.
        keep_going: Skip files that cannot be read.
    """

    weights: Sequence[tuple[str, int]] = ()
    cap: int | None = None
    keep_going: bool = False


@dataclass(frozen=True, slots=True)
class Merged:
    """The sum: its *counts*, and the number of *files* in it; *skipped* are (path, reason) pairs."""

    counts: Counts
    files: int
    skipped: Sequence[tuple[str, str]]

    def file(self) -> bytes:
        """Return the counts file."""
        return counts.write(self.counts)


_DEFAULT = MergeOptions()


def merge_counts(
    paths: Iterable[str], options: MergeOptions = _DEFAULT, *, warn: Callable[[str], None] = silent
) -> Merged:
    """Add up files of counts.

    Args:
        paths: The files, compressed or not.
        options: How they are added up.
        warn: Called with one line for each skipped file.

    Raises:
        HugealignError: A file cannot be read and is not to be skipped, or no file is left.
    """
    skipped: list[tuple[str, str]] = []
    reader = _Reader(options, skipped, warn)
    total = _Sum()
    for path in paths:
        reader.add(path, total)
    if not total.files:
        raise HugealignError("no file of counts is left to merge")
    return Merged(total.counts, total.files, skipped)


class _Sum:
    """The sum of *files* files; its distinct lines may still take *left* bytes of memory."""

    __slots__ = ("counts", "files", "left")

    def __init__(self) -> None:
        self.counts: Counts = {}
        self.files = 0
        self.left = counts.ROOM


class _Reader:
    """Reads files, and notes the ones that it skips."""

    def __init__(
        self, options: MergeOptions, skipped: list[tuple[str, str]], warn: Callable[[str], None] = silent
    ) -> None:
        for _, weight in options.weights:
            if not 0 <= weight <= MOST_WEIGHT:
                raise UsageError(f"--weight: not a number from 0 to {MOST_WEIGHT}")
        self.options, self.skipped, self.warn = options, skipped, warn

    def data(self, path: str) -> bytes | None:
        """Return the bytes of a file, None if it is skipped.  Raises HugealignError."""
        try:
            return file_bytes(path)
        except ProfileError as error:
            self.refused(path, error)
            return None

    def refused(self, path: str, error: ProfileError) -> None:
        """Skip a file, or raise HugealignError."""
        message = f"{printable(path)}: {error}"
        if not self.options.keep_going:
            raise HugealignError(message) from None
        self.skipped.append((path, str(error)))
        self.warn(f"{message}; skipped")

    def add(self, path: str, total: _Sum) -> None:
        """Add the file at *path* to *total*."""
        weight = self.weight(path)
        if not weight:
            return
        data = self.data(path)
        if data is None:
            return
        try:
            _add(data, total, weight, self.options.cap)
        except ProfileError as error:
            self.refused(path, error)

    def weight(self, path: str) -> int:
        """Return how often a file counts."""
        name = path.rpartition("/")[2]
        return next(
            (n for pattern, n in self.options.weights if fnmatchcase(path, pattern) or fnmatchcase(name, pattern)), 1
        )


def file_bytes(path: str) -> bytes:
    """Return the bytes of the file at *path*, unpacked.  Raises ProfileError."""
    with read.unpacked(path, 2 * counts.LIMIT) as (stream, *_):  # `counts.whole` reads no more than half of that
        return counts.whole(stream)


def _add(data: bytes, total: _Sum, weight: int, cap: int | None) -> None:
    """Add the file *data* to *total*, completely or not at all.  Raises ProfileError."""
    small = len(data) <= counts.CHUNK  # the rows of a large file are read again instead of kept
    kept: list[tuple[bytes, list[counts.Rows]]] = []
    sums: Counter[bytes] = Counter()
    size, builds = 0, len(total.counts)
    for head, lines in counts.sections(data):
        mine = total.counts.get(head, {})
        builds += head not in total.counts
        if builds > counts.MOST_BUILDS:
            raise ProfileError(f"has too many new builds: more than {counts.MOST_BUILDS} together")
        rows: list[counts.Rows] = []
        for keys, numbers in counts.rows(lines):
            size += counts.check(filterfalse(mine.__contains__, keys))
            if size > total.left:
                raise ProfileError(f"has too many new lines: more than {counts.ROOM >> 20} MiB of memory together")
            for kind in counts.KINDS if cap is not None else ():
                sums[kind] += sum(numbers[counts.span(kind, keys)])
            if small:
                rows.append((keys, numbers))
        if small:
            kept.append((head, rows))
    total.left -= size
    scales = {} if cap is None else _scales(sums, cap)
    read_again = ((head, counts.rows(lines)) for head, lines in counts.sections(data))
    for head, some in kept if small else read_again:
        mine = total.counts.setdefault(head, {})
        for keys, numbers in some:
            scaled = numbers if weight == 1 else [number * weight for number in numbers]
            scaled[counts.span(counts.HOSTS, keys)] = numbers[counts.span(counts.HOSTS, keys)]
            for kind, (part, whole) in scales.items():
                span = counts.span(kind, keys)
                scaled[span] = [number * part // whole for number in scaled[span]]
            # Each key comes once, so all old counts can be looked up before any is changed.
            mine.update(zip(keys, map(operator.add, map(mine.get, keys, repeat(0)), scaled), strict=True))
    total.files += 1


def _scales(sums: Mapping[bytes, int], cap: int) -> dict[bytes, tuple[int, int]]:
    """Return by which fraction to scale the counts of each kind, whose *sums* over a file are known.

    All shrink with the samples, which come to no more than *cap*, and nor does any other kind; calls come to no more
    than samples, since readers count a sample with each call.
    """
    samples = sums[counts.FUNCTION] + sums[counts.OUTSIDE]
    scales = {}
    for kind, count in sums.items():
        most = min(cap, samples) if kind == counts.CALL else cap
        bounds = [(most, count)] if kind == counts.HOSTS else [(cap, samples), (most, count)]
        if over := [bound for bound in bounds if bound[1] > bound[0]]:
            scales[kind] = min(over, key=lambda bound: Fraction(*bound))
    return scales
