"""What a function does, whatever its name and wherever it lies: a digest of its code without addresses.

There is no disassembler: bytes that look like a relative call or jump, or like an operand relative to the program
counter, are left out (on x86-64: Intel's manual, volume 2, CALL, JMP, Jcc, and table 2-2, ModR/M with mod 0 and r/m 5).
If that leaves out too much, two functions may have the same digest, which then counts for neither; if it leaves out too
little, a function is not found again.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from hugealign.code.blockmap import Block
from hugealign.elf.image import EM_AARCH64, EM_X86_64
from hugealign.elf.symbols import Functions
from hugealign.elf.windows import file_offset
from hugealign.io.descriptors import file_at

_LEAST, _MOST = 32, 1 << 20  # bytes of a function: fewer do not tell it from others, and more are not looked at
_X86_64 = re.compile(
    rb"(\xe8|\xe9|\x0f[\x80-\x8f]"
    rb"|[\x03\x10\x11\x28-\x2b\x2e\x2f\x33\x39\x3b\x54\x57-\x5f\x63\x6f\x7f-\x81\x83-\x85\x88-\x8b\x8d\xb6\xb7\xbe\xbf"
    rb"\xc6\xc7\xf6\xf7\xff][\x05\x0d\x15\x1d\x25\x2d\x35\x3d]).{4}",
    re.DOTALL,
)
#: One jump or two at the end of a block: Jcc or JMP, short or near (Intel's manual, volume 2).
_JUMPS_X86_64 = re.compile(rb"(?:[\x70-\x7f\xeb].|\x0f[\x80-\x8f].{4}|\xe9.{4}){1,2}\Z", re.DOTALL)
_LONGEST_JUMPS = 11
#: The most that is read of a file, in times its size and in bytes: functions can overlap, and lie in holes.
_READ, _READ_MOST = 4, 1 << 30
#: Arm's manual, chapter C4: the bits that identify the instruction, their value, and the bits to keep.
_AARCH64 = (
    (0x7C000000, 0x14000000, 0xFC000000),  # B, BL
    (0xFF000010, 0x54000000, 0xFF00001F),  # B.cond
    (0x7E000000, 0x34000000, 0xFF00001F),  # CBZ, CBNZ
    (0x7E000000, 0x36000000, 0xFFF8001F),  # TBZ, TBNZ
    (0x1F000000, 0x10000000, 0x9F00001F),  # ADR, ADRP
    (0x7F800000, 0x11000000, 0xFFC003FF),  # ADD, which ends an address
    (0x3B000000, 0x39000000, 0xFFC003FF),  # LDR, STR with an offset, likewise
)
#: B, B.cond, CBZ and CBNZ, TBZ and TBNZ.
_JUMPS_AARCH64 = (
    (0xFC000000, 0x14000000),
    (0xFF000010, 0x54000000),
    (0x7E000000, 0x34000000),
    (0x7E000000, 0x36000000),
)


def digests(path: str | os.PathLike[str], functions: Functions, indices: Iterable[int]) -> dict[int, bytes]:
    """Return 16 hexadecimal digits for each of the functions *indices* of the file at *path* that can be distinguished.

    A function that cannot be read has none.
    """
    image = functions.image
    plain: Callable[[bytes], bytes] | None = {EM_X86_64: _plain_x86_64, EM_AARCH64: _plain_aarch64}.get(image.e_machine)
    digest_of: dict[int, bytes] = {}
    if plain is None:
        return digest_of
    try:
        with file_at(path) as fd:
            codes = _codes(fd, functions, (index for index in indices if functions.sizes[index] >= _LEAST))
            for index, code in codes:
                digest_of[index] = hashlib.blake2b(plain(code), digest_size=8).hexdigest().encode()
    except (OSError, OverflowError):
        pass
    return digest_of


def block_digests(
    path: str | os.PathLike[str], functions: Functions, blocks: Mapping[int, Sequence[Block]]
) -> dict[int, list[bytes]]:
    """Return a digest of the code of each block; *blocks* maps the index of a function to its blocks.

    A function that cannot be read has no digests.  A digest leaves out the jump at the end of the block: its target,
    and whether the compiler needs a jump there, depend on what follows.
    """
    image = functions.image
    ended = {EM_X86_64: _without_jump_x86_64, EM_AARCH64: _without_jump_aarch64}.get(image.e_machine)
    digests_of: dict[int, list[bytes]] = {}
    if ended is None:
        return digests_of
    try:
        with file_at(path) as fd:
            for index, code in _codes(fd, functions, blocks):
                start = functions.starts[index]
                parts = (code[block.address - start : block.address - start + block.size] for block in blocks[index])
                digests_of[index] = [hashlib.blake2b(ended(part), digest_size=8).digest() for part in parts]
    except (OSError, OverflowError):
        pass
    return digests_of


def _codes(fd: int, functions: Functions, indices: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """Yield the code of the functions *indices* that have any, until too much is read."""
    left = min(_READ * os.fstat(fd).st_size, _READ_MOST)
    for index in indices:
        if functions.sizes[index] <= min(left, _MOST):
            left -= functions.sizes[index]
            if code := _code(fd, functions, index):
                yield index, code


def _code(fd: int, functions: Functions, index: int) -> bytes:
    """Return the code of a function; empty if it is not in the file."""
    start, size = functions.starts[index], functions.sizes[index]
    segments = functions.image.text_segments
    inside = next((s for s in segments if s.p_vaddr <= start < s.p_vaddr + s.p_filesz), None)
    if inside is None:
        return b""
    code = os.pread(fd, size, file_offset(inside, start))
    return code if len(code) == size and code != bytes(size) else b""  # in a debug file there are holes


def _without_jump_x86_64(code: bytes) -> bytes:
    jumps = _JUMPS_X86_64.search(code, max(0, len(code) - _LONGEST_JUMPS))
    return _plain_x86_64(code[: jumps.start()] if jumps else code)


def _without_jump_aarch64(code: bytes) -> bytes:
    end = len(code) & ~3
    while end and any(int.from_bytes(code[end - 4 : end], "little") & mask == value for mask, value in _JUMPS_AARCH64):
        end -= 4
    return _plain_aarch64(code[:end])


def _plain_x86_64(code: bytes) -> bytes:
    return _X86_64.sub(rb"\1", code)


def _plain_aarch64(code: bytes) -> bytes:
    words = memoryview(code[: len(code) & ~3]).cast("I")
    return b"".join(_kept(word).to_bytes(4, "little") for word in words)


def _kept(word: int) -> int:
    return next((word & keep for mask, value, keep in _AARCH64 if word & mask == value), word)
