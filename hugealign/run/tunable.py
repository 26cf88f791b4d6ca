"""The tunable of glibc's loader by which it requests huge pages for text, and the loader of a program."""

import os
from collections.abc import Mapping

from hugealign.elf.image import PT_INTERP, read_image
from hugealign.io.regular import opened

#: glibc.elf.thp (glibc 2.44): the loader itself requests huge pages for text and read-only data that begin on a window.
#: Then pages that the kernel took away come back huge; text that the page cache holds in small pages stays small, so
#: this does not replace warming.
VARIABLE, SETTING = "GLIBC_TUNABLES", "glibc.elf.thp=1"
_TUNABLE = SETTING.partition("=")[0]
_LARGEST_LOADER = 8 << 20  # bytes to read of a loader; real ones have less than 1 MiB


def has_tunable(path: str) -> bool:
    """Return whether the loader of the program at *path* has the tunable `SETTING`.  Raises HugealignError."""
    loader = loader_of(path)
    if not loader:
        return False
    with opened(loader) as fd:
        # `ld.so --list-tunables` prints these names; the file contains each as a whole (dl-tunable-list.h).
        return _TUNABLE.encode() + b"\0" in os.pread(fd, _LARGEST_LOADER, 0)


def loader_of(path: str) -> str:
    """Return the path of the loader that the program at *path* names, empty without one.  Raises HugealignError."""
    with opened(path) as fd:
        image = read_image(fd)
        segment = next((s for s in image.segments if s.p_type == PT_INTERP), None)
        if segment is None or segment.p_offset >= image.file_size:
            return ""
        return os.fsdecode(os.pread(fd, min(segment.p_filesz, 4096), segment.p_offset).rstrip(b"\0"))


def with_tunable(environ: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return *environ* with the setting added to the other tunables, unless it has this one already."""
    name = VARIABLE.encode()
    given = environ.get(name, b"")
    if any(part.partition(b"=")[0] == _TUNABLE.encode() for part in given.split(b":")):
        return dict(environ)
    return {**environ, name: b":".join(part for part in (given, SETTING.encode()) if part)}
