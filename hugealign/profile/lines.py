"""Lines of a stream of any size, in bounded memory."""

from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

_CHUNK = 1 << 20
LINE_LIMIT = 8 << 20  # bytes of one line; a longer one is cut and so malformed
COUNTED_LIMIT = 64 << 20  # bytes of samples that are counted before they are resolved


def lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of *stream* without their ends."""
    rest = b""
    cut = False  # the current line has already been yielded
    while chunk := stream.read(_CHUNK):
        pieces = chunk.split(b"\n")
        if len(pieces) == 1:
            if not cut:
                rest += chunk
                if len(rest) > LINE_LIMIT:
                    yield rest[:LINE_LIMIT] + b"\0"
                    rest, cut = b"", True
            continue
        if not cut:
            yield rest + pieces[0]
        yield from pieces[1:-1]
        rest, cut = pieces[-1], False
    if rest:
        yield rest


def blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield pieces of *stream* of about a MiB that end with a line, or with an empty line if lines begin with tabs.

    So perf's call chains, indented by tabs and ended by an empty line, stay whole.
    """
    rest = b""
    while chunk := stream.read(_CHUNK):
        rest += chunk
        end = b"\n\n" if b"\n\t" in rest else b"\n"
        cut = rest.rfind(end)
        if cut >= 0:
            yield rest[:cut]
            rest = rest[cut + len(end) :]
        elif len(rest) > LINE_LIMIT:
            yield rest
            rest = b""
    if rest:
        yield rest


def samples(block: bytes) -> list[bytes]:
    """Split a piece that `blocks` gave: into call chains with all of their lines, or into lines."""
    return block.split(b"\n\n" if b"\n\t" in block else b"\n")


def counted(stream: BinaryIO) -> Iterator[Counter[bytes]]:
    """Yield counts of the samples of *stream* (see `samples`), each time before they grow too many.

    Without a time, most samples equal others byte for byte.  Python counts them as fast as perf prints.
    """
    waiting: Counter[bytes] = Counter()
    size = 0
    for block in blocks(stream):
        waiting.update(samples(block))
        size += len(block)
        if size > COUNTED_LIMIT:
            yield waiting
            waiting, size = Counter(), 0
    yield waiting
