"""Lines of a stream of any size, in bounded memory."""

from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

_CHUNK = 1 << 20
LINE_LIMIT = 8 << 20  # bytes of one line; a longer one is cut, which leaves it malformed
COUNTED_LIMIT = 64 << 20  # bytes of samples that are counted before they are resolved


def lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of *stream* without their ends."""
    rest = b""
    cut = False  # the line that we are in has been given out already
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
    """Yield pieces of *stream* of about a MiB, which end where a line does, or an empty one if lines begin with tabs.

    So a call chain of perf's, indented by tabs and ended by an empty line, is never torn.
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
    """Return what `blocks` gave, taken apart: call chains with all of their lines, or lines."""
    return block.split(b"\n\n" if b"\n\t" in block else b"\n")


def counted(stream: BinaryIO) -> Iterator[Counter[bytes]]:
    """Yield the samples of *stream* (see `samples`) with how often each comes, again and again before there are many.

    Most samples are like others, byte for byte, if they have no time.  Python counts as fast as perf prints.
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
