"""glibc.elf.thp (glibc 2.44): the loader itself asks for huge pages for text and read-only data that begin on a window.

Then pages that the kernel took away come back huge; what lies in the page cache in small pages stays small, so that it
does not stand for warming.
"""

import os
from collections.abc import Mapping

from hugealign.elf.image import PT_INTERP, read_image
from hugealign.machine import children
from hugealign.regular import opened

VARIABLE, SETTING = "GLIBC_TUNABLES", "glibc.elf.thp=1"
_NAME = SETTING.partition("=")[0]
_LOADERS = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")
_SECONDS = 10.0  # that a loader gets to list its tunables


def known(path: str) -> bool:
    """Return whether the loader of the program at *path* lists it.  Raises HugealignError."""
    with opened(path) as fd:
        segment = next((s for s in read_image(fd).segments if s.p_type == PT_INTERP), None)
        loader = (
            os.fsdecode(os.pread(fd, min(segment.p_filesz, 4096), segment.p_offset)).rstrip("\0") if segment else ""
        )
    if not os.path.normpath(loader).startswith(_LOADERS):  # what a file names elsewhere is not executed for that
        return False
    child = children.command([loader, "--list-tunables"])
    if child is None:
        return False
    children.collect([child], _SECONDS)
    return any(line.startswith(f"{_NAME}:") for line in child.text.splitlines())


def added(environ: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return *environ* with the setting beside the other tunables, unless it says something of this one already."""
    name = VARIABLE.encode()
    given = environ.get(name, b"")
    if any(part.partition(b"=")[0] == _NAME.encode() for part in given.split(b":")):
        return dict(environ)
    return {**environ, name: b":".join(part for part in (given, SETTING.encode()) if part)}
