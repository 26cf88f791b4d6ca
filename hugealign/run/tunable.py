"""glibc.elf.thp (glibc 2.44): the loader itself asks for huge pages for text and read-only data that begin on a window.

Then pages that the kernel took away come back huge; text that the page cache holds in small pages stays small, so the
tunable does not replace warming.
"""

import os
from collections.abc import Mapping

from hugealign.elf.image import PT_INTERP, read_image
from hugealign.io.regular import opened

VARIABLE, SETTING = "GLIBC_TUNABLES", "glibc.elf.thp=1"
_NAME = SETTING.partition("=")[0]
_LARGEST = 8 << 20  # bytes to read of a loader; real ones have less than 1 MiB


def known(path: str) -> bool:
    """Return whether the loader of the program at *path* has this tunable.  Raises HugealignError."""
    with opened(path) as fd:
        image = read_image(fd)
        segment = next((s for s in image.segments if s.p_type == PT_INTERP), None)
        if segment is None or segment.p_offset >= image.file_size:
            return False
        loader = os.pread(fd, min(segment.p_filesz, 4096), segment.p_offset).rstrip(b"\0")
    if not loader:
        return False
    with opened(os.fsdecode(loader)) as fd:
        # `ld.so --list-tunables` prints these names; the file contains each as a whole (dl-tunable-list.h).
        return _NAME.encode() + b"\0" in os.pread(fd, _LARGEST, 0)


def added(environ: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return *environ* with the setting added to the other tunables, unless it has this one already."""
    name = VARIABLE.encode()
    given = environ.get(name, b"")
    if any(part.partition(b"=")[0] == _NAME.encode() for part in given.split(b":")):
        return dict(environ)
    return {**environ, name: b":".join(part for part in (given, SETTING.encode()) if part)}
