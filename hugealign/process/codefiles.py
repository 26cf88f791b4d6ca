"""The files behind executable mappings: which of their windows hold code, and where a program's own text belongs."""

import contextlib
import os
import struct
from collections.abc import Iterator, Sequence

from hugealign.elf.image import Image, read_image
from hugealign.elf.windows import BASE_PAGE, align_down, align_up, windows_holding
from hugealign.errors import HugealignError
from hugealign.io import mounts
from hugealign.io.descriptors import using
from hugealign.io.regular import opened
from hugealign.process import smaps

_AT_ENTRY = 9  # include/uapi/linux/auxvec.h
_AUXV_LIMIT = 1 << 16
_REMEMBERED = 256  # files

Range = tuple[int, int]
#: The offsets of the code in a file; None for a file that is not ELF.
Code = tuple[Range, ...] | None

#: By device, inode, change time and size.
_known: dict[tuple[int, int, int, int], Code] = {}


@contextlib.contextmanager
def opened_file(pid: int, mapping: smaps.Mapping, program: bool, elsewhere: bool = False) -> Iterator[int | None]:
    """Open the file behind *mapping* of *pid*; None if it has none, or if another one took its place.

    *program*: it is the program's own file.  *elsewhere*: its name leads to another file here.  Raises HugealignError.
    """
    if not mapping.is_file or mounts.served(os.makedev(*mapping.device), pid):
        yield None
        return
    # Both links lead to the file itself, even if its name is gone or belongs to another file, and from other mount
    # namespaces.  Only CAP_SYS_ADMIN and CAP_CHECKPOINT_RESTORE may open files through map_files.
    link = "exe" if program else f"map_files/{mapping.start:x}-{mapping.end:x}"
    path = f"/proc/{pid}/{link}"
    if not os.path.exists(path) and not elsewhere:
        path = mapping.path  # the process has ended
        if mounts.behind_server(path):  # over which the process had a copy
            yield None
            return
    with opened(path) as fd:
        yield fd if os.fstat(fd).st_ino == mapping.inode else None


def with_code(
    pid: int,
    mapping: smaps.Mapping,
    program: bool,
    elsewhere: bool = False,
    codes: dict[tuple[int, int], Code] | None = None,
) -> smaps.Mapping:
    """Return *mapping* of *pid* with the addresses of its code, as far as its file tells; arguments as `opened_file`'s.

    It is returned as it is if it is not executable, or if its file is not ELF or cannot be read.  *codes*, by device
    and inode as mappings show them, keep what was read.
    """
    if not mapping.executable or not mapping.is_file:
        return mapping
    file = os.makedev(*mapping.device), mapping.inode
    codes = {} if codes is None else codes
    if file not in codes:
        with contextlib.suppress(HugealignError, OSError), opened_file(pid, mapping, program, elsewhere) as fd:
            if fd is not None:
                codes[file] = _code(fd)
    code = codes.get(file)
    if code is None:
        return mapping
    within = windows_holding(code, mapping.offset, mapping.offset + mapping.size, 1)
    moved = mapping.start - mapping.offset
    return mapping.changed(code=tuple((start + moved, end + moved) for start, end in within))


def _code(fd: int) -> Code:
    info = os.fstat(fd)
    key = info.st_dev, info.st_ino, info.st_ctime_ns, info.st_size
    if key not in _known:
        while len(_known) >= _REMEMBERED:
            del _known[next(iter(_known))]
        _known[key] = None
        with contextlib.suppress(HugealignError):
            _known[key] = _offsets(read_image(fd))
    return _known[key]


def _offsets(image: Image) -> tuple[Range, ...]:
    offsets = [
        (start - segment.p_vaddr + segment.p_offset, end - segment.p_vaddr + segment.p_offset)
        for segment in image.text_segments
        for start, end in windows_holding(image.code, segment.p_vaddr, segment.p_vaddr + segment.p_filesz, 1)
    ]
    ranges: list[Range] = []
    for start, end in sorted(offsets):
        if ranges and start <= ranges[-1][1]:
            ranges[-1] = ranges[-1][0], max(end, ranges[-1][1])
        else:
            ranges.append((start, end))
    return tuple(ranges)


def own_text(directory: int) -> tuple[Range, ...]:
    """Return where the text of a program lies in memory: *directory* is its open /proc/PID.

    A program may have mapped a copy in its place.  Empty if that is unknown.
    """
    with contextlib.suppress(HugealignError, OSError, struct.error):
        with using(os.open("auxv", os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)) as fd:
            auxv = os.read(fd, _AUXV_LIMIT)
        with using(os.open("exe", os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)) as fd:
            image = read_image(fd)
        pair = struct.Struct(image.order + ("QQ" if image.is64 else "II"))
        entries = dict(pair.iter_unpack(auxv[: len(auxv) - len(auxv) % pair.size]))
        if entry := entries.get(_AT_ENTRY, 0):
            moved = entry - image.e_entry
            return tuple(
                (align_down(s.p_vaddr + moved, BASE_PAGE), align_up(s.p_vaddr + s.p_memsz + moved, BASE_PAGE))
                for s in image.text_segments
            )
    return ()


def with_own(mapping: smaps.Mapping, text: Sequence[Range]) -> smaps.Mapping:
    """Return *mapping*, marked if it is memory without a file in the place of the program's *text*."""
    for start, end in text:
        if start < mapping.end and mapping.start < end and mapping.executable and mapping.without_file:
            return mapping.changed(own=True)
    return mapping
