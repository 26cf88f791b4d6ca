"""How much code goes into a link, judged from its inputs before it runs.

The answer only decides which link is tried first, so that small programs and large ones alike are linked once:
what came out is looked at afterwards.  Counting therefore stops at the limit that matters.
"""

import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.link.command import Command

_SHDR64 = struct.Struct("<IIQQQQIIQQ")
_ARCHIVE, _THIN_ARCHIVE = b"!<arch>\n", b"!<thin>\n"
_MEMBER_HEADER = 60  # ar(5): name, date, uid, gid, mode, size, magic
_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")  # LLVM bitcode, and its wrapper


def code_bytes(command: "Command", limit: int) -> int:
    """Return about how many bytes of code *command* links, or at least *limit* once that is reached."""
    total = 0
    for path in inputs(command):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError):
            continue
        try:
            total += _file(fd, limit - total)
        except (OSError, struct.error, ValueError):
            continue
        finally:
            os.close(fd)
        if total >= limit:
            break
    return total


def machine_of(command: "Command") -> int | None:
    """Return ``e_machine`` of the first 64-bit little-endian ELF object among the inputs, or None."""
    for path in command.inputs:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError):
            continue
        try:
            head = os.pread(fd, 20, 0)
        except OSError:
            head = b""
        finally:
            os.close(fd)
        if head.startswith(b"\x7fELF") and len(head) == 20:
            return int.from_bytes(head[18:20], "little") if head[4:6] == b"\x02\x01" else 0
    return None


def inputs(command: "Command") -> list[str]:
    """Return the object files and archives of *command*; libraries that resolve to shared objects are left out."""
    paths = [path for path in command.inputs if not _is_shared(path.rpartition("/")[2])]
    for name, static in command.libraries:
        if name == "gcc":
            continue  # always given, large as an archive, and next to nothing of it is used
        names = (name[1:],) if name.startswith(":") else (f"lib{name}.so", f"lib{name}.a")[static:]
        found = next(
            (
                path
                for directory in command.library_paths
                for path in (f"{directory}/{candidate}" for candidate in names)
                if os.path.exists(path)
            ),
            None,
        )
        if found and found.endswith(".a"):
            paths.append(found)
    return paths


def _is_shared(name: str) -> bool:
    return name.endswith(".so") or ".so." in name


def _file(fd: int, limit: int) -> int:
    magic = os.pread(fd, 8, 0)
    size = os.fstat(fd).st_size
    if magic == _ARCHIVE:
        return _archive(fd, size, limit)
    if magic == _THIN_ARCHIVE:
        return limit  # its members lie elsewhere; thin archives are made by large builds
    return _object(fd, 0, size)


def _archive(fd: int, size: int, limit: int) -> int:
    total, offset = 0, len(_ARCHIVE)
    while offset + _MEMBER_HEADER <= size and total < limit:
        header = os.pread(fd, _MEMBER_HEADER, offset)
        member_size = int(header[48:58])
        if member_size < 0:
            break
        offset += _MEMBER_HEADER
        total += _object(fd, offset, member_size)
        offset += member_size + member_size % 2
    return total


def _object(fd: int, base: int, size: int) -> int:
    """Return the bytes of code in the object that begins at *base* and is *size* bytes long."""
    head = os.pread(fd, 64, base)
    if head[:4] in _BITCODE:
        return size
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01" or head[16:18] != b"\x01\0":
        return 0
    e_shoff = int.from_bytes(head[40:48], "little")
    e_shnum = int.from_bytes(head[60:62], "little")
    table = os.pread(fd, min(e_shnum, 0xFFFF) * _SHDR64.size, base + min(e_shoff, size))
    code = lto = 0
    for _, sh_type, sh_flags, _, _, sh_size, _, _, _, _ in _SHDR64.iter_unpack(
        table[: len(table) - len(table) % _SHDR64.size]
    ):
        if sh_flags & 4:
            code += sh_size
        elif sh_flags & 0x80000000:  # SHF_EXCLUDE: GCC's LTO sections, code yet to be made
            lto += sh_size
        elif e_shnum == 0 and sh_type == 0:
            return size
    return code or lto
