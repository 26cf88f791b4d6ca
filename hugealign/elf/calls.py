"""Which functions a function calls directly, read from its machine code.

No disassembler: a call instruction is found by its opcode, and taken for one if its target is the very beginning of a
function, which other bytes hit once in ten thousand times.  On x86-64 that is ``E8 rel32`` (Intel's manual, volume 2,
CALL), on aarch64 ``BL`` (Arm's manual, C6.2.36).  Calls through pointers and through the PLT are not seen.
"""

import os
import re
from bisect import bisect_right
from typing import Self

from hugealign.elf.image import EM_AARCH64, EM_X86_64, SHF_EXECINSTR, SHT_NOBITS
from hugealign.elf.symbols import Functions

_MOST = 1 << 20  # bytes of one function; a size in a symbol table can be anything
_X86_64 = re.compile(rb"\xe8")
_AARCH64 = re.compile(rb"[\x94-\x97]")  # the last byte of the instruction


class Calls:
    """The calls of the *functions* of the file at *path*.  Close it, or use it as a context manager."""

    def __init__(self, path: str | os.PathLike[str], functions: Functions) -> None:
        """Open the file.  Raises OSError."""
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        self._functions = functions
        self._at = dict(zip(functions.starts, range(len(functions)), strict=True))
        image = functions.image
        # In a debug file the segments stand for bytes that are not there; its sections say so.
        sections = [s for s in image.sections if s.sh_flags & SHF_EXECINSTR and s.sh_type != SHT_NOBITS]
        self._code = sorted((s.sh_addr, s.sh_size, s.sh_offset) for s in sections)
        self._targets = {EM_X86_64: _x86_64, EM_AARCH64: _aarch64}.get(image.e_machine)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def of(self, index: int) -> list[int]:
        """Return the functions that function *index* calls, without itself, in the order of the first call of each.

        What cannot be read calls nothing.
        """
        start = self._functions.starts[index]
        if self._targets is None:
            return []
        found = [self._at.get(target, index) for target in self._targets(self._bytes(index), start)]
        return [callee for callee in dict.fromkeys(found) if callee != index]

    def _bytes(self, index: int) -> bytes:
        start, size = self._functions.starts[index], min(self._functions.sizes[index], _MOST)
        at = bisect_right(self._code, (start, 1 << 64)) - 1
        if at < 0:
            return b""
        address, length, offset = self._code[at]
        size = min(size, address + length - start)
        try:
            return os.pread(self._fd, size, offset + start - address) if size > 0 else b""
        except (OSError, OverflowError):
            return b""


def _x86_64(code: bytes, start: int) -> list[int]:
    ends = [found.end() + 4 for found in _X86_64.finditer(code)]
    return [start + end + int.from_bytes(code[end - 4 : end], "little", signed=True) for end in ends]


def _aarch64(code: bytes, start: int) -> list[int]:
    targets = []
    for found in _AARCH64.finditer(code):
        if found.end() % 4 == 0:
            words = int.from_bytes(code[found.end() - 4 : found.end()], "little") & 0x3FFFFFF
            targets.append(start + found.end() - 4 + 4 * (words - ((words & 0x2000000) << 1)))
    return targets
