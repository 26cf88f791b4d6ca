"""Show how much text is huge in the page cache: lines for people, JSON for programs."""

import itertools
from collections.abc import Collection, Sequence

from hugealign.diagnosis import documents, render
from hugealign.errors import HugealignError
from hugealign.io.units import format_size, printable
from hugealign.pagecache.warm import CachedText
from hugealign.system import kernel

SCHEMA = "hugealign.warm/1"
_SHOWN = 4  # ranges or names in a line


def lines(text: CachedText) -> list[str]:
    """Return the lines for people: the count, then reason and windows."""
    size = format_size(text.huge * text.page_size)
    windows = f"{text.huge} of {len(text.offsets)} windows huge"
    result = [f"{printable(text.path)}: {render.counted_huge(windows, text.huge, len(text.offsets))} ({size})"]
    result += [f"  {render.sentence(note)}" for note in text.notes]
    if text.diagnosis:
        result.append(f"  {render.text(text.diagnosis, colour=True)}")
    if text.huge and text.small:
        result.append(f"  not huge: file offsets {ranges(text.small, text.page_size)}")
    return result


def total(texts: Sequence[CachedText], libraries: Collection[str]) -> list[str]:
    """Return the lines about all files together; *libraries* are the paths that the user did not name."""
    result = []
    if small := [printable(t.path.rpartition("/")[2]) for t in texts if t.path in libraries and not t.offsets]:
        noun = "libraries" if len(small) > 1 else "library"
        result.append(f"{len(small)} {noun} without a whole window: {shortened(small)}")
    if len(texts) > 1:
        huge = sum(t.huge for t in texts)
        size = format_size(sum(t.huge * t.page_size for t in texts))
        result.append(f"total: {huge} of {sum(len(t.offsets) for t in texts)} windows huge ({size})")
    return result


def ranges(offsets: Sequence[int], page_size: int) -> str:
    """Return the first few ranges of file offsets of the windows at *offsets*."""
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


def to_json(
    texts: Sequence[CachedText],
    libraries: Collection[str],
    missing: Sequence[tuple[str, str]],
    errors: Sequence[tuple[str, HugealignError]],
) -> str:
    """Return the JSON document ``hugealign.warm/1``, which warm-1.schema.json beside this file describes.

    *libraries* are the paths of those *texts* that the user did not name.  Names are escaped as in the text.
    """
    page_size = kernel.huge_page_size()
    body = {
        "page_size": page_size,
        "huge_bytes": sum(t.huge for t in texts) * page_size,
        "files": [
            {
                "path": printable(t.path),
                "library": t.path in libraries,
                "replaced": t.replaced,
                "windows": len(t.offsets),
                "windows_huge": t.huge,
                "huge_bytes": t.huge * page_size,
                "small_offsets": t.small,
                "methods": list(t.warmth.methods),
                "diagnosis": render.document(t.diagnosis),
                "notes": [render.document(note) for note in t.notes],
            }
            for t in texts
        ],
        "libraries_missing": [{"name": printable(name), "needed_by": printable(needing)} for name, needing in missing],
        "errors": documents.errors(errors),
    }
    return documents.to_json(SCHEMA, body)
