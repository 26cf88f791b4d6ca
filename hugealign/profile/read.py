"""Reading a profile of any known format."""

import contextlib
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import BinaryIO

from hugealign.elf.symbols import Functions
from hugealign.profile import otlp, pprof
from hugealign.profile.formats import FORMATS, Format, detect
from hugealign.profile.model import Malformed, Profile, ProfileError
from hugealign.profile.packed import HEAD, UnpackAllowance, gunzipped, opened, recorded, unzstd
from hugealign.profile.protobuf import whole
from hugealign.profile.source import Others, ProfileSource


def add(
    path: str,
    profile: Profile,
    functions: Functions,
    binary: str,
    form: str | None = None,
    allowance: UnpackAllowance | None = None,
    others: Others | None = None,
) -> str:
    """Add the profile at *path*, of format *form* (detected by default), to *profile*; return its format.

    *functions* are the functions of the file at *binary*, *allowance* limits unpacking, and *others* has what is known
    of other builds.  Raises ProfileError.
    """
    with unpacked(path, allowance or UnpackAllowance()) as (stream, packed, found, head):
        form = form or found
        if form in (None, "gzip", "zstd"):
            raise ProfileError(_unknown(head, packed))
        known = ProfileSource(stream, _no_option(path), functions, _no_option(binary), others or Others())
        _read(FORMATS[str(form)], path, packed, known, profile)
    if not profile.good:
        raise ProfileError(f"nothing in it can be read as {form}")
    return str(form)


def builds(path: str, allowance: UnpackAllowance | None = None) -> dict[str, str]:
    """Return the paths of the files mapped in the profile at *path*, by build-id, if its format has both.

    A profile that cannot be read, or that is a pipe, has none: its reader reports what is wrong with it.
    """
    with suppress(ProfileError, Malformed, IndexError):
        if os.path.isfile(path):
            with unpacked(path, allowance or UnpackAllowance()) as (stream, _, form, _):
                mapped = {"pprof": pprof.mapped, "otlp": otlp.mapped}.get(str(form))
                if mapped:
                    names: dict[bytes, str] = {}  # many mappings can share one
                    return {
                        one.build_id: names.setdefault(one.path, os.fsdecode(one.path))
                        for one in mapped(whole(stream))
                        if one.build_id
                    }
    return {}


@contextlib.contextmanager
def unpacked(path: str, allowance: UnpackAllowance) -> Iterator[tuple[BinaryIO, bool, str | None, bytes]]:
    """Give the stream of *path*, unpacked, whether it was packed, its format and its first bytes.

    Raises ProfileError, also for errors while the stream is read.
    """
    try:
        with opened(recorded(path)) as file, contextlib.ExitStack() as stack:
            stream: BinaryIO = file
            head = stream.peek(HEAD)[:HEAD]  # type: ignore[attr-defined]
            found = detect(head)
            if found in ("gzip", "zstd"):
                unpack = gunzipped if found == "gzip" else unzstd
                stream = stack.enter_context(unpack(file, allowance))
                head = stream.peek(HEAD)[:HEAD]  # type: ignore[attr-defined]
                found = detect(head)
            yield stream, stream is not file, found, head
    except (OSError, EOFError, zlib.error) as error:
        raise ProfileError(
            str(getattr(error, "strerror", None) or "the compressed data is damaged or cut short")
        ) from None


def _no_option(path: str) -> str:
    """Return *path* in a form that no tool takes for an option; not all of them know ``--``."""
    return f"./{path}" if path.startswith("-") else path


def _unknown(head: bytes, packed: bool) -> str:
    if not head.strip():
        return "unpacks to nothing: empty, damaged or cut short" if packed else "is empty"
    if head[:4] == b"\x7fELF":
        return "is a program, not a profile; the binary belongs to -b"
    known = ", ".join(FORMATS)
    return f"is of no known format; known are {known}, and --type says which it is if its beginning does not"


def _read(form: Format, path: str, packed: bool, source: ProfileSource, profile: Profile) -> None:
    if not form.tool or (not packed and (os.path.isfile(path) or os.path.isdir(path))):
        form.read(source, profile)
        return
    with tempfile.TemporaryFile() as file:  # it has no name, so nothing is left behind, however we end
        shutil.copyfileobj(source.stream, file)
        file.flush()
        form.read(replace(source, path=f"/proc/{os.getpid()}/fd/{file.fileno()}"), profile)
