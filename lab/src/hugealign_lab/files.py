"""What a trace keeps of a file with code: its build and its segments."""

import hashlib
import os

from hugealign.elf.image import PF_X, read_image
from hugealign.elf.notes import read_notes
from hugealign.errors import HugealignError
from hugealign.io.regular import opened
from hugealign.io.units import printable
from hugealign_lab.tracefile import File, TracedSegment


def describe(path: str) -> File:
    """Return what is known of the file at *path*: only its path if it is gone, or no ELF file."""
    try:
        with opened(path) as fd:
            image = read_image(fd)
            build_id = read_notes(fd, image).build_id
            identity = f"build-id:{build_id}" if build_id else _digest(fd)
    except (HugealignError, OSError, ValueError):
        return File(path)
    loads = image.load_segments
    segments = (TracedSegment(s.p_vaddr, s.p_offset, s.p_filesz, s.p_memsz, bool(s.p_flags & PF_X)) for s in loads)
    return File(path, identity, tuple(segments))


def _digest(fd: int) -> str:
    with open(fd, "rb", closefd=False) as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


def find(files: tuple[File, ...], path: str, instead: str = "") -> int:
    """Return the number of the file at *path* among *files*, by its build, whatever its path there.

    Raises HugealignError if it is not among them.  *instead* says how to give the build that was traced, if one can.
    """
    wanted = describe(path)
    if not wanted.identity:
        raise HugealignError(f"{printable(path)}: is not an ELF file that can be read")
    for number, file in enumerate(files):
        if file.identity == wanted.identity:
            return number
    name = os.path.basename(path)
    if any(os.path.basename(file.path) == name for file in files):
        other = f", or give that one {instead}" if instead else ""
        raise HugealignError(f"{printable(path)}: is another build than the one that was traced; trace this one{other}")
    raise HugealignError(f"{printable(path)}: nothing of it runs in this trace")


def vaddr(file: File, offset: int) -> int:
    """Return the address, as in p_vaddr, of *offset*; executable segments count first.

    Pages are mapped whole, so two segments can claim one offset, and a segment can claim bytes before it.
    """
    for executable in (True, False):
        for s in file.segments:
            if s.executable == executable and s.p_offset <= offset < s.p_offset + s.p_filesz:
                return offset - s.p_offset + s.p_vaddr
    return offset
