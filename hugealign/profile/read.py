"""Reading a profile of any known format."""

import contextlib
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import BinaryIO, cast

from hugealign.elf.image import ELFMAG
from hugealign.elf.symbols import Functions
from hugealign.errors import HugealignError, cause
from hugealign.io import unpacking
from hugealign.profile.formats import FORMATS, Format, detect
from hugealign.profile.model import Malformed, Profile, ProfileError
from hugealign.profile.protobuf import whole
from hugealign.profile.source import Others, ProfileSource

HEAD = 1 << 16  # bytes from which the format of a profile is known


def add(
    path: str,
    profile: Profile,
    functions: Functions,
    binary: str,
    form: str | None = None,
    max_unpacked: int | None = None,
    others: Others | None = None,
) -> str:
    """Add the profile at *path*, of format *form* (detected by default), to *profile*; return its format.

    *functions* are the functions of the file at *binary*, *max_unpacked* is what it may unpack to, by default in
    proportion to its size, and *others* has what is known of other builds.  Raises ProfileError.
    """
    with unpacked(path, max_unpacked) as (stream, packed, detected, head):
        form = form or detected
        if form in (None, "gzip", "zstd"):
            raise ProfileError(_unknown(head, packed))
        source = ProfileSource(stream, _no_option(path), functions, _no_option(binary), others or Others())
        _read(FORMATS[str(form)], path, packed, source, profile)
    if not profile.good:
        raise ProfileError(f"it is not a valid {form} profile")
    return str(form)


def builds(path: str, max_unpacked: int | None = None) -> dict[str, str]:
    """Return the paths of the files mapped in the profile at *path*, by build-id, if its format has both.

    A profile that cannot be read, or that is a pipe, has none: its reader reports what is wrong with it.
    """
    with suppress(ProfileError, Malformed, IndexError):
        if os.path.isfile(path):
            with unpacked(path, max_unpacked) as (stream, _, form, _):
                if form in FORMATS and (mapped := FORMATS[form].mapped):
                    names: dict[bytes, str] = {}  # many mappings can share one
                    return {
                        mapping.build_id: names.setdefault(mapping.path, os.fsdecode(mapping.path))
                        for mapping in mapped(whole(stream))
                        if mapping.build_id
                    }
    return {}


@contextlib.contextmanager
def unpacked(path: str, most: int | None = None) -> Iterator[tuple[BinaryIO, bool, str | None, bytes]]:
    """Give the stream of *path*, unpacked, whether it was packed, its format and its first bytes.

    It may be a pipe, and unpack to *most* bytes, by default in proportion to its size.  Raises ProfileError, also for
    errors while the stream is read.
    """
    try:
        opened = cast("io.BufferedReader", open(recorded(path), "rb", buffering=HEAD))  # noqa: SIM115  # closed below
    except (OSError, ValueError) as error:
        raise ProfileError(cause(error)) from None
    try:
        with opened as file:
            stream = file
            head = stream.peek(HEAD)[:HEAD]
            form = detect(head)
            if form in ("gzip", "zstd"):
                stream = _unpacked(file, form, most)
                head = stream.peek(HEAD)[:HEAD]
                form = detect(head)
            yield stream, stream is not file, form, head
    except ProfileError:
        raise
    except (OSError, HugealignError) as error:
        raise ProfileError(cause(error)) from None


def _unpacked(file: io.BufferedReader, form: str, most: int | None) -> io.BufferedReader:
    status = os.fstat(file.fileno())
    if stat.S_ISREG(status.st_mode):
        budget = unpacking.Budget(status.st_size, most)
        source: unpacking.ByteSource = unpacking.FileSource(file.fileno(), 0, status.st_size)
    else:
        budget = unpacking.Budget(0, most)
        source = unpacking.StreamSource(file, budget)
    unpack = unpacking.gzip if form == "gzip" else unpacking.Zstd
    return unpacking.stream(unpack(source, budget), HEAD)


def recorded(path: str) -> str:
    """Return the file that says what *path* is: of a directory, perf's first.  Raises ProfileError for any other."""
    if not os.path.isdir(path):
        return path
    data = os.path.join(path, "data")
    if not os.path.isfile(data):
        raise ProfileError("is a directory without perf's file `data`")
    return data


def _no_option(path: str) -> str:
    """Return *path* in a form that no tool takes for an option; not all of them know ``--``."""
    return f"./{path}" if path.startswith("-") else path


def _unknown(head: bytes, packed: bool) -> str:
    if not head.strip():
        return "decompresses to nothing: empty, damaged or truncated" if packed else "is empty"
    if head.startswith(ELFMAG):
        return "is an executable, not a profile; pass it with -b"
    known = ", ".join(FORMATS)
    return f"unknown format; known are {known}; pass --type if the first bytes do not identify it"


def _read(form: Format, path: str, packed: bool, source: ProfileSource, profile: Profile) -> None:
    if not form.tool or (not packed and (os.path.isfile(path) or os.path.isdir(path))):
        form.read(source, profile)
        return
    with tempfile.TemporaryFile() as file:  # it has no name, so nothing is left behind, however we end
        shutil.copyfileobj(source.stream, file)
        file.flush()
        form.read(replace(source, path=f"/proc/{os.getpid()}/fd/{file.fileno()}"), profile)
