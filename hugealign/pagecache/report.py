"""Show how much text is huge in the page cache: lines for people, JSON for programs."""

import itertools
from collections.abc import Sequence

from hugealign.diagnosis import render
from hugealign.diagnosis.documents import Failed
from hugealign.io.units import format_size, printable
from hugealign.pagecache.warm import CachedText
from hugealign.records import Record
from hugealign.system import kernel

_SHOWN = 4  # ranges or names in a line


class Missing(Record):
    """A library that was not found."""

    name: str
    needed_by: str

    JSON = "name needed_by"


class Report(Record):
    """What `hugealign warm` did."""

    files: Sequence[CachedText]
    libraries_missing: Sequence[Missing]
    """Libraries that --libs did not find."""
    errors: Sequence[Failed]
    page_size: int
    """Bytes of a window."""

    SCHEMA = "hugealign.warm/1"
    JSON = "page_size huge_bytes files libraries_missing errors"

    @property
    def huge_bytes(self) -> int:
        """Bytes of huge text of all files: the memory that it costs."""
        return sum(text.huge_bytes for text in self.files)


def lines(text: CachedText) -> list[str]:
    """Return the lines for people: the count, then reason and windows."""
    size = format_size(text.huge_bytes)
    windows = f"{text.huge} of {len(text.offsets)} windows huge"
    result = [f"{printable(text.path)}: {render.counted_huge(windows, text.huge, len(text.offsets))} ({size})"]
    result += [f"  {render.sentence(note)}" for note in text.notes]
    if text.diagnosis:
        result.append(f"  {render.text(text.diagnosis, colour=True)}")
    if text.huge and text.small:
        result.append(f"  not huge: file offsets {ranges(text.small)}")
    return result


def total(texts: Sequence[CachedText]) -> list[str]:
    """Return the lines about all files together."""
    result = []
    if small := [printable(t.path.rpartition("/")[2]) for t in texts if t.library and not t.offsets]:
        noun = "libraries" if len(small) > 1 else "library"
        result.append(f"{len(small)} {noun} without a whole window: {shortened(small)}")
    if len(texts) > 1:
        huge = sum(t.huge for t in texts)
        size = format_size(sum(t.huge_bytes for t in texts))
        result.append(f"total: {huge} of {sum(len(t.offsets) for t in texts)} windows huge ({size})")
    return result


def ranges(offsets: Sequence[int]) -> str:
    """Return the first few ranges of file offsets of the windows at *offsets*."""
    page_size = kernel.huge_page_size()
    result: list[list[int]] = []
    for offset in offsets:
        if result and result[-1][1] == offset:
            result[-1][1] += page_size
        else:
            result.append([offset, offset + page_size])
    return shortened([f"{start:#x}-{end:#x}" for start, end in result])


def shortened(words: Sequence[str]) -> str:
    """Return the first few *words* and the number of the others."""
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(itertools.islice(words, _SHOWN)) + more
