"""Reading a profile of any known format."""

import contextlib
import gzip
import io
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

from hugealign.elf.symbols import Functions
from hugealign.profile import (
    autofdo,
    bolt_yaml,
    callgrind,
    fdata,
    folded,
    gcov,
    gprof,
    order_list,
    perf,
    perf_addresses,
    perf_text,
    pprof,
    preaggregated,
    profdata,
    symbol_list,
    tools,
)
from hugealign.profile.detect import detect
from hugealign.profile.lines import lines
from hugealign.profile.model import Profile, ProfileError

_HEAD = 1 << 16
_UNPACKED_LIMIT = 64 << 30
_PATTERN_LIMIT = 1 << 14

#: Text formats that need nothing but their lines.
_LINES: dict[str, Callable[[Iterator[bytes], Profile], None]] = {
    "fdata": fdata.read,
    "folded": folded.read,
    "gprof-text": gprof.read,
    "profdata-text": profdata.read,
    "autofdo": autofdo.read,
    "gcov": gcov.read,
    "symbols": symbol_list.read,
    "order": order_list.read,
}
_PATTERNS = frozenset({"gprof-text", "profdata-text", "autofdo"})
#: Formats that a tool reads, which wants a file.
_FILES: dict[str, Callable[[str, Profile, Functions, str], None]] = {
    "perf.data": perf.read,
    "gprof": gprof.read_data,
    "gcda": gcov.read_data,
    "profdata": profdata.read_data,
    "llvm-text": profdata.read_data,
    "llvm-sample": autofdo.read_data,
    "afdo": autofdo.read_gcc,
    "pprof": pprof.read_data,
}
FORMATS = (*_LINES, *_FILES, "bolt-yaml", "callgrind", "preaggregated", "pprof-text", "perf-text", "perf-addresses")


def add(path: str, profile: Profile, functions: Functions, binary: str, form: str | None = None) -> str:
    """Add the profile at *path*, of format *form* (by default what it looks like), to *profile*; return its format.

    *functions* are those of the file at *binary*.  Raises ProfileError.
    """
    try:
        with _opened(path) as file, contextlib.ExitStack() as stack:
            stream: BinaryIO = file
            head = stream.peek(_HEAD)[:_HEAD]  # type: ignore[attr-defined]
            found = detect(head)
            if found in ("gzip", "zstd"):
                unpack = _gunzipped if found == "gzip" else _unzstd
                stream = stack.enter_context(unpack(file))
                head = stream.peek(_HEAD)[:_HEAD]  # type: ignore[attr-defined]
                found = detect(head)
            form = form or found
            if form in (None, "gzip", "zstd"):
                raise ProfileError(_unknown(head, packed=stream is not file))
            _read(str(form), path, stream, stream is not file, profile, functions, binary)
    except (OSError, EOFError, zlib.error) as error:
        raise ProfileError(
            str(getattr(error, "strerror", None) or "the compressed data is damaged or cut short")
        ) from None
    if not profile.good:
        raise ProfileError(f"nothing in it can be read as {form}")
    return str(form)


def _short(all_lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines, in place of long ones a malformed one: patterns take the square of a hostile line's length."""
    for line in all_lines:
        yield line if len(line) <= _PATTERN_LIMIT else b"\0"


def _unknown(head: bytes, packed: bool) -> str:
    if not head.strip():
        return "unpacks to nothing: empty, damaged or cut short" if packed else "is empty"
    if head[:4] == b"\x7fELF":
        return "is a program, not a profile; the binary belongs to -b"
    return "is of no known format; see `hugealign order --help`"


def _read(
    form: str, path: str, stream: BinaryIO, packed: bool, profile: Profile, functions: Functions, binary: str
) -> None:
    name = os.fsencode(os.path.basename(binary))

    def ours(file: bytes) -> bool:
        return file.rpartition(b"/")[2] == name

    if form in _FILES:
        if not packed and os.path.isfile(path):
            _FILES[form](path, profile, functions, binary)
            return
        with tempfile.NamedTemporaryFile(prefix="hugealign-profile-") as file:
            shutil.copyfileobj(stream, file)
            file.flush()
            _FILES[form](file.name, profile, functions, binary)
    elif form in _LINES:
        _LINES[form](_short(lines(stream)) if form in _PATTERNS else lines(stream), profile)
    elif form == "bolt-yaml":
        bolt_yaml.read(stream, profile)
    elif form == "callgrind":
        callgrind.read(lines(stream), profile, os.fsencode(binary))
    elif form == "preaggregated":
        preaggregated.read(lines(stream), profile, functions)
    elif form == "pprof-text":
        pprof.read(_short(lines(stream)), profile, functions, ours)
    elif form == "perf-text":
        perf_text.Reader(profile, ours).read(_short(lines(stream)))
    else:
        perf_addresses.Reader(profile, functions, ours).read(stream)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """Open *path*, which may be a pipe, for reading."""
    try:
        file = open(path, "rb", buffering=_HEAD)  # noqa: SIM115 - closed below
    except ValueError as error:
        raise ProfileError(str(error)) from None
    with file:
        if stat.S_ISDIR(os.fstat(file.fileno()).st_mode):
            raise ProfileError("is a directory")
        yield file


@contextlib.contextmanager
def _gunzipped(file: BinaryIO) -> Iterator[BinaryIO]:
    with gzip.GzipFile(fileobj=file) as stream:
        yield cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", _Bounded(stream)), _HEAD))


@contextlib.contextmanager
def _unzstd(file: BinaryIO) -> Iterator[BinaryIO]:
    """Unpack by zstd, since Python has it from 3.14 on only."""
    zstd = tools.find("zstd", package="zstd")
    with tempfile.NamedTemporaryFile(prefix="hugealign-profile-") as copy:
        path = copy.name
        shutil.copyfileobj(file, copy)
        copy.flush()
        with tools.output([zstd, "-dcq", path]) as stream:
            yield cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", _Bounded(stream)), _HEAD))
            # To the end, so that damage there is noticed.
            while stream.read(_HEAD):
                pass


class _Bounded(io.RawIOBase):
    """A stream that must not become endless: a small file can unpack to any size."""

    def __init__(self, stream: BinaryIO | gzip.GzipFile) -> None:
        self.stream = stream
        self.left = _UNPACKED_LIMIT

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        data = self.stream.read(len(buffer))
        self.left -= len(data)
        if self.left < 0:
            raise ProfileError(f"unpacks to more than {_UNPACKED_LIMIT >> 30} GiB")
        buffer[: len(data)] = data
        return len(data)
