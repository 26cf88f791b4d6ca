"""Reading a profile of any known format."""

import contextlib
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

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
)
from hugealign.profile.detect import detect
from hugealign.profile.lines import lines
from hugealign.profile.model import Profile, ProfileError
from hugealign.profile.packed import HEAD, Allowance, gunzipped, opened, unzstd

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


def add(
    path: str,
    profile: Profile,
    functions: Functions,
    binary: str,
    form: str | None = None,
    allowance: Allowance | None = None,
) -> str:
    """Add the profile at *path*, of format *form* (by default what it looks like), to *profile*; return its format.

    *functions* are those of the file at *binary*, *allowance* what may be unpacked.  Raises ProfileError.
    """
    allowance = allowance or Allowance()
    try:
        with opened(path) as file, contextlib.ExitStack() as stack:
            stream: BinaryIO = file
            head = stream.peek(HEAD)[:HEAD]  # type: ignore[attr-defined]
            found = detect(head)
            if found in ("gzip", "zstd"):
                unpack = gunzipped if found == "gzip" else unzstd
                stream = stack.enter_context(unpack(file, allowance))
                head = stream.peek(HEAD)[:HEAD]  # type: ignore[attr-defined]
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


def _no_option(path: str) -> str:
    """Return *path* as no tool can take it for an option; not all of them know ``--``."""
    return f"./{path}" if path.startswith("-") else path


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
        binary = _no_option(binary)
        if not packed and os.path.isfile(path):
            _FILES[form](_no_option(path), profile, functions, binary)
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
