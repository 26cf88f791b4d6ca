"""Opens a profile: a file or a pipe, plain or compressed by gzip or zstd, with a limit on the unpacked size."""

import contextlib
import gzip
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

from hugealign.io.units import format_size
from hugealign.profile import tools
from hugealign.profile.model import ProfileError

#: How much a command may unpack: bytes in any case, and bytes per packed byte.  perf's text shrinks to a fiftieth.
FREE, FACTOR = 64 << 20, 128
HEAD = 1 << 16


class UnpackAllowance:
    """How many bytes all packed files of one command may unpack to: *most*, or what their own sizes allow."""

    __slots__ = ("_left", "_most")

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._left = FREE if most is None else most

    def packed(self, size: int) -> None:
        """Note that *size* packed bytes were read."""
        if self._most is None:
            self._left += FACTOR * size

    def unpacked(self, size: int) -> None:
        """Note that *size* bytes were unpacked.  Raises ProfileError if that is too much."""
        self._left -= size
        if self._left < 0:
            much = f"{FREE >> 20} MiB and {FACTOR} times its size" if self._most is None else format_size(self._most)
            raise ProfileError(f"unpacks to more than {much}; if it is what it should be, give --max-unpacked=SIZE")


def recorded(path: str) -> str:
    """Return the file that says what *path* is: of a directory, perf's first.  Raises ProfileError for any other."""
    if not os.path.isdir(path):
        return path
    data = os.path.join(path, "data")
    if not os.path.isfile(data):
        raise ProfileError("is a directory, and none of perf's, which has a file `data`")
    return data


@contextlib.contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Open *path*, which may be a pipe, for reading; its first HEAD bytes can be peeked at.  Raises ProfileError."""
    try:
        file = open(path, "rb", buffering=HEAD)  # noqa: SIM115 - closed below
    except ValueError as error:
        raise ProfileError(str(error)) from None
    with file:
        yield file


@contextlib.contextmanager
def gunzipped(file: BinaryIO, allowance: UnpackAllowance) -> Iterator[BinaryIO]:
    """Give a stream of *file* unpacked."""
    with gzip.GzipFile(fileobj=cast("BinaryIO", _Counted(file, allowance.packed))) as stream:
        yield _bounded(cast("BinaryIO", stream), allowance)


@contextlib.contextmanager
def unzstd(file: BinaryIO, allowance: UnpackAllowance) -> Iterator[BinaryIO]:
    """Give a stream of *file* unpacked; the zstd program does it, since Python has zstd only from 3.14 on."""
    command = [tools.find("zstd", package="zstd"), "-dcq"]
    with contextlib.ExitStack() as stack:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            copy = stack.enter_context(tempfile.TemporaryFile(prefix="hugealign-profile-"))
            shutil.copyfileobj(file, copy)
            copy.flush()
            file = cast("BinaryIO", copy)
        allowance.packed(os.fstat(file.fileno()).st_size)
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        stream = _bounded(stack.enter_context(tools.output(command, stdin=file.fileno())), allowance)
        yield stream
        while stream.read(HEAD):  # to the end, to notice damage there
            pass


def _bounded(stream: BinaryIO, allowance: UnpackAllowance) -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", _Counted(stream, allowance.unpacked)), HEAD))


class _Counted(io.RawIOBase):
    """A stream that calls *count* with the bytes read from it."""

    def __init__(self, stream: BinaryIO, count: Callable[[int], None]) -> None:
        self.stream, self.count = stream, count

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(size)
        self.count(len(data))
        return data

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
