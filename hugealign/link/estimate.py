"""Estimate from its inputs how much code goes into a link.

The answer only decides which link is tried first, so small and large programs alike are linked once: the output is
checked afterwards.  Counting therefore stops at the limit that matters.
"""

import os

from hugealign.elf import machines, relocatable
from hugealign.elf.image import SHF_EXCLUDE, SHF_EXECINSTR, read_header, section_table
from hugealign.elf.machines import Machine
from hugealign.elf.relocatable import SHDR, UNREADABLE, opened
from hugealign.errors import NotElfError
from hugealign.io import ar
from hugealign.link.command import Command

_EXCLUDED = SHF_EXCLUDE >> 24  # in its byte of sh_flags: GCC's LTO sections, code yet to be generated
BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")  # LLVM bitcode, and its wrapper


def code_bytes(command: "Command", limit: int) -> int:
    """Return about how many bytes of code *command* links, or at least *limit* once that is reached."""
    total = 0
    for _, fd in opened(inputs(command)):
        try:
            total += _file(fd, limit - total)
        except UNREADABLE:
            continue
        if total >= limit:
            break
    return total


def machine_of(command: "Command") -> Machine | None:
    """Return the processor of the first ELF file among the inputs; None if there is none, or no row for it."""
    for _, fd in opened(command.inputs):
        try:
            header = read_header(fd)
        except (NotElfError, *UNREADABLE):
            continue
        return machines.machine_of(header.e_machine, header.layout.is64, header.order == "<")
    return None


def abi_flags(command: "Command", machine: Machine) -> int:
    """Return the ``e_flags`` of the first object for *machine* among the inputs; without one, those in its row.

    The C library's start files come first in a usual link.
    """
    for _, fd in opened(inputs(command)):
        try:
            for _, offset, _ in ar.members(fd):
                header = relocatable.read_object(fd, offset)
                if header and header.e_machine == machine.number:
                    return header.e_flags
        except UNREADABLE:
            continue
    return machine.flags


def inputs(command: "Command") -> list[str]:
    """Return the object files and archives of *command*, without libraries that resolve to shared objects."""
    paths = [path for path in command.inputs if not _is_shared(path.rpartition("/")[2])]
    return paths + [path for path in libraries(command) if path.endswith(".a")]


def libraries(command: "Command") -> list[str]:
    """Return the files that the libraries of *command* resolve to, without libgcc's."""
    if command.library_files is not None:
        return command.library_files
    paths = command.library_files = []
    for name, static in command.libraries:
        if name == "gcc":
            continue  # always given: a large archive, but links use next to nothing of it
        names = (name[1:],) if name.startswith(":") else (f"lib{name}.so", f"lib{name}.a")[static:]
        resolved = next(
            (
                path
                for directory in command.library_paths
                for path in (f"{directory}/{candidate}" for candidate in names)
                if os.path.exists(path)
            ),
            None,
        )
        if resolved:
            paths.append(resolved)
    return paths


def _is_shared(name: str) -> bool:
    return name.endswith(".so") or ".so." in name


def _file(fd: int, limit: int) -> int:
    if os.pread(fd, 8, 0) == ar.THIN:
        return limit  # its members are files of their own; large builds make thin archives
    total = 0
    for _, offset, size in ar.members(fd):
        total += _object(fd, offset, size)
        if total >= limit:
            break
    return total


def _object(fd: int, base: int, size: int) -> int:
    """Return the bytes of code in the object that begins at *base* and is *size* bytes long."""
    header = relocatable.read_object(fd, base)
    if header is None:
        return size if os.pread(fd, 4, base) in BITCODE else 0
    headers, order = section_table(fd, header), header.byte_order
    low, high = (8, 11) if order == "little" else (15, 12)  # the lowest byte of sh_flags, and the fourth
    code = lto = 0
    for at in range(0, len(headers) - SHDR + 1, SHDR):
        if headers[at + low] & SHF_EXECINSTR:
            code += int.from_bytes(headers[at + 32 : at + 40], order)
        elif headers[at + high] & _EXCLUDED:
            lto += int.from_bytes(headers[at + 32 : at + 40], order)
    return code or lto
