"""Whether an address can be a return address, as the addresses of a call chain are.

A program without frame pointers uses the register for something else, and a profiler that walks frames by it takes
whatever lies there for callers.  Such an address hardly ever has a call in front of it.  The encodings are those of
Intel's manual, volume 2, CALL (``E8 rel32``, ``FF /2``), and of Arm's, C6.2.36 and 37 (``BL``, ``BLR``, ``BLRA…``).
"""

import os
from contextlib import suppress

from hugealign.elf.image import EM_AARCH64, EM_X86_64, SHF_EXECINSTR, SHT_NOBITS, Image
from hugealign.io.descriptors import file_at

_BEFORE, _BEHIND = 8, 8  # bytes that are read on either side of an address
_WORD = 4
_NO_CODE = -1


class CallSites:
    """The code of the file at *path* with the headers *image*; if it cannot be read, every address is possible."""

    def __init__(self, path: str | os.PathLike[str], image: Image) -> None:
        """Note where the code lies; a debug file has none."""
        self._sections = [
            (s.sh_addr, s.sh_addr + s.sh_size, s.sh_offset)
            for s in image.sections
            if s.sh_flags & SHF_EXECINSTR and s.sh_type != SHT_NOBITS
        ]
        self._machine = image.e_machine if image.e_machine in (EM_X86_64, EM_AARCH64) else _NO_CODE
        self._path = path

    def possible(self, address: int) -> bool:
        """Whether a call ends at *address*, or is around it.

        Where perf unwinds by DWARF it prints the byte before; for calls that the processor recorded, the call itself.
        """
        place = next((s for s in self._sections if s[0] <= address <= s[1]), None)
        if place is None or self._machine == _NO_CODE:
            return True
        begin, end, offset = place
        start = max(begin, address - _BEFORE)
        code = b""
        with suppress(OSError, OverflowError), file_at(self._path) as fd:
            code = os.pread(fd, min(end, address + _BEHIND) - start, offset + start - begin)
        if not code:
            return True
        at = address - start
        if self._machine == EM_AARCH64:
            return any(_is_branch_and_link(code[k : k + _WORD]) for k in (at - _WORD, at - _WORD + 1, at) if k >= 0)
        return any(_ends_call(code[: at + more]) for more in (0, 1)) or _begins_call(code[at:])


def _is_branch_and_link(word: bytes) -> bool:
    number = int.from_bytes(word, "little")
    return len(word) == _WORD and (
        number >> 26 == 0b100101 or number & 0xFFFFFC1F == 0xD63F0000 or number & 0xFEFFF800 == 0xD63F0800
    )


def _ends_call(code: bytes) -> bool:
    """Return whether the last instruction of *code* can be a call (x86-64)."""
    return code[-5:-4] == b"\xe8" or any(
        len(code) >= size and _indirect(code[-size:]) == size for size in (2, 3, 4, 6, 7)
    )


def _begins_call(code: bytes) -> bool:
    """Return whether *code* begins with a call, behind prefixes (x86-64)."""
    rest = code.lstrip(b"\x2e\x3e\x66\x67\xf2") if code[:1] != b"\xff" else code
    if rest[:1] and 0x40 <= rest[0] <= 0x4F:
        rest = rest[1:]
    return rest[:1] == b"\xe8" or _indirect(rest) > 0


def _indirect(code: bytes) -> int:
    """Return the length of the call through a register or memory that *code* begins with, 0 if it does not."""
    if len(code) < 2 or code[0] != 0xFF or code[1] >> 3 & 7 != 2:
        return 0
    mode, register = code[1] >> 6, code[1] & 7
    if mode == 3:
        return 2
    scaled = register == 4
    size = 2 + scaled + (0, 1, 4)[mode]
    if mode == 0 and (register == 5 or (scaled and len(code) > 2 and code[2] & 7 == 5)):
        size += 4
    return size
