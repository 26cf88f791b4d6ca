"""A separated file that is not the original with its addresses moved is refused, whichever word of it is wrong.

The files are written here, for a step, by other means than the writer's: a program without a compiler.
"""

import functools
import struct
import tempfile
from collections.abc import Callable
from typing import IO

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.fixrecord import Step
from hugealign.fixing.separation.check import check

R, RX, RW = 4, 5, 6
ALLOC, WRITTEN, CODE = 2, 3, 6
START, DELTA = 0x1000, 0x10000
NOT_MOVED = Step(1 << 60, 0)
#: Text in a segment of its own; and with the headers, so that there is one program header more.
STEPS = {"apart": Step(START, DELTA), "together": Step(START, DELTA, 0x400, 56)}
DYNAMIC, SYMBOLS, RELA, RELR, DATA, TABLE, NAMES = 0x3100, 0x500, 0x600, 0x700, 0x3400, 0x4000, 0x4200
#: Where packed relocations are: one, and two more by a bitmap, of which the second is the last that fits.
PACKED = (0x3400, 0x3408, 0x3400 + 63 * 8)
#: GNU_HASH, VERSYM, VERDEF, VERNEED.
VERSIONS = (0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFE)
SECTIONS = [
    ("", 0, 0, 0, 0),
    (".note", 7, ALLOC, 0x480, 0x24),
    (".dynsym", 11, ALLOC, SYMBOLS, 72),
    (".rela.dyn", 4, ALLOC, RELA, 144),
    (".relr.dyn", 19, ALLOC, RELR, 16),
    (".text", 1, CODE, START, 0x800),
    (".rodata", 1, ALLOC, 0x1800, 0x100),
    (".tdata", 1, WRITTEN | 0x400, 0x3000, 0x13),
    (".dynamic", 6, WRITTEN, DYNAMIC, 0x200),
    (".data", 1, WRITTEN, DATA, 0x400),
    (".bss", 8, WRITTEN, 0x3800, 0x800),
    (".symtab", 2, 0, TABLE, 10 * 24),
    (".comment", 1, 0, 0x4100, 0x20),
    (".overlay", 1, 4, 0x480, 0x20),  # code, but not loaded
    (".odd", 1, ALLOC, 0x1903, 0x20),  # not aligned
    (".shstrtab", 3, 0, NAMES, 0x90),
]


class File:
    """A file in which each address is that of *step*, and the offset of each byte its address."""

    def __init__(self, step: Step, together: bool) -> None:
        self.step, self.data = step, bytearray(NAMES + 0x1000 + step.delta)
        a = step
        self.put(0x480, struct.pack("<III4s20s", 4, 20, 3, b"GNU\0", bytes(range(20))))
        symbols = [(0, 0, 0, 0), (1, 0x12, 5, a(START + 8)), (2, 0x16, 7, 8)]
        self.put(SYMBOLS, b"".join(struct.pack("<IBxHQQ", n, i, s, v, 4) for n, i, s, v in symbols))
        rela = [
            (a(0x3410), 8, a(0x1010)),
            (a(0x3418), 1, a(0x1018)),
            (a(0x3420), 6 | 1 << 32, 0x1010),
            (a(0x3428), 37, a(0x1010)),
            (a(0x3430), 8, 0x100),
        ]
        self.put(RELA, b"".join(struct.pack("<QQQ", *entry) for entry in rela))
        self.put(RELA + 120, struct.pack("<QQQ", a(0x3438), 7 | 1 << 32, 0))
        self.put(RELR, struct.pack("<QQ", a(PACKED[0]), 1 | 1 << 1 | 1 << 63))
        for number, place in enumerate(PACKED):
            self.put(place, struct.pack("<Q", a(0x1020 + number)))
        self.put(START, bytes(range(1, 250)) * 3)
        self.put(0x1800, b"constants" * 8)
        self.put(0x1908, struct.pack("<Q", a(0x1068)))
        self.put(0x3000, b"of a thread" + struct.pack("<Q", a(0x1070)))
        self.put(DATA + 0x103, struct.pack("<Q", a(0x1040)))  # a word that is not aligned
        self.put(DATA + 0x10B, struct.pack("<Q", a(0x1048)))
        self.put(DATA + 0x200, struct.pack("<QQ", a(0x1050), 0x1050))  # an address, and a number
        self.put(DATA + 0x210, struct.pack("<Q", 0x100))  # in front of what moves
        self.put(DATA + 0x3F8, struct.pack("<Q", a(0x1060)))
        values = {
            (1, 1), (4, a(0x490)), (5, a(SYMBOLS)), (6, a(SYMBOLS)), (7, a(RELA)), (8, 120), (9, 24),
            (12, a(START)), (13, a(START + 16)), (23, a(RELA + 120)), (2, 24), (36, a(RELR)), (35, 16), (30, 8),
            *((tag, a(DATA + tag % 256)) for tag in (3, 25, 26, 32, *VERSIONS)),
        }  # fmt: skip
        self.put(DYNAMIC, b"".join(struct.pack("<QQ", *entry) for entry in sorted(values)) + bytes(16))
        loads = [(R, 0, START), (RX, START, 0x1000)] if not together else [(RX, 0, 0x2000)]
        if together and step.delta:
            loads = [(R, 0, START), (RX, START, 0x1000)]
        self.segments = [(6, R, 64, 64, 0, 0)]
        for flags, at, size in loads:
            low = a(at) if at else 0
            self.segments.append((1, flags, low, low, size + (a.room if not at else 0), 4096))
        self.segments.append((1, RW, a(0x3000), a(0x3000), 0x800, 4096))
        for kind, flags, at, size in (
            (2, RW, DYNAMIC, 0x200),
            (4, R, 0x480, 0x24),
            (7, R, 0x3000, 0x10),
            (0x6474E552, R, 0x3000, 0x400),
        ):
            self.segments.append((kind, flags, a(at), a(at), size, 8))
        self.segments.append((0x6474E551, RW, 0, 0, 0, 16))
        self.segments.append((0x60000000, R, 0x4100 + a.delta, 0, 0x20, 1))  # not loaded
        size = 56 * len(self.segments)
        for number, (kind, flags, offset, at, length, alignment) in enumerate(self.segments):
            memory = size if kind == 6 else length + (0x800 if (kind, flags) == (1, RW) else 0)
            held = size if kind == 6 else length
            header = struct.pack("<IIQQQQQQ", kind, flags, offset, at, at, held, memory, alignment)
            self.data[64 + 56 * number : 120 + 56 * number] = header
        table = [
            (1, 0x12, 5, a(START + 8)), (2, 0x11, 9, a(DATA)), (3, 0x17, 9, a(0x3800)), (4, 0, 0xFFF1, 0x1010),
            (5, 6, 7, 0x3008), (6, 0, 0, 0), (7, 3, 5, a(START)), (8, 0, 1, a(0x480)), (9, 0, 10, a(0x4000)),
            (10, 0x12, 0, a(0x1020)),  # of another file, with the address of its entry here
        ]  # fmt: skip
        self.at(TABLE + a.delta, b"".join(struct.pack("<IBxHQQ", n, i, s, v, 4) for n, i, s, v in table))
        self.at(0x4100 + a.delta, b"who made this")
        names = b"\0".join(name.encode() for name, *_ in SECTIONS) + b"\0"
        self.at(NAMES + a.delta, names)
        headers = NAMES + 0x100 + a.delta
        for number, (name, kind, flags, at, length) in enumerate(SECTIONS):
            address = a(at) if flags & ALLOC else at if flags else 0
            offset = address if flags & ALLOC else at + a.delta if kind else 0
            words = (names.index(name.encode() + b"\0"), kind, flags, address, offset, length, 0, 0, 1, 0)
            self.at(headers + 64 * number, struct.pack("<IIQQQQIIQQ", *words))
        self.sections = headers
        ehdr = (3, 62, 1, a(START), 64, headers, 0, 64, 56, len(self.segments), 64, len(SECTIONS), len(SECTIONS) - 1)
        self.at(0, b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", *ehdr))

    def put(self, address: int, data: bytes) -> None:
        """Write *data* at the *address* of the original."""
        self.at(self.step(address), data)

    def at(self, offset: int, data: bytes) -> None:
        self.data[offset : offset + len(data)] = data

    def segment(self, kind: int, flags: int = R) -> int:
        """Return where the first program header of that type and these flags is."""
        return 64 + 56 * next(i for i, s in enumerate(self.segments) if s[:2] == (kind, flags))

    def section(self, name: str) -> int:
        return self.sections + 64 * next(i for i, s in enumerate(SECTIONS) if s[0] == name)

    def add(self, offset: int, number: int, size: int = 8) -> None:
        """Add *number* to the word at *offset*."""
        word = int.from_bytes(self.data[offset : offset + size], "little") + number
        self.at(offset, (word % (1 << 8 * size)).to_bytes(size, "little"))


def written(data: bytearray) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115
    file.write(data)
    file.flush()
    return file


@functools.cache
def original(together: bool) -> IO[bytes]:
    return written(File(NOT_MOVED, together).data)


def refused(new: File) -> str:
    """Return the part of the *new* file that is wrong; empty if nothing is."""
    with written(new.data) as after:
        try:
            check(original(new.step.room > 0).fileno(), after.fileno(), new.step)
        except RefusalError as error:
            return str(error.diagnosis.facts["part"])
    return ""


@pytest.fixture(params=STEPS)
def new(request: pytest.FixtureRequest) -> File:
    return File(STEPS[request.param], request.param == "together")


def test_what_is_right(new: File) -> None:
    assert refused(new) == ""


#: What is right also: a word, by what it is in, and what it may become.
@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.put(0x490, b"another build ID"),
        lambda file: file.at(0x4100 + DELTA + 0x20, b"behind what is described"),
        lambda file: file.add(file.section(".comment") + 32, 8),  # what is not loaded may grow
        lambda file: file.add(file.segment(0x6474E552) + 8, 4096),
        lambda file: file.add(file.section(".shstrtab") + 32, 8),
        lambda file: file.add(TABLE + DELTA + 24 * 3 + 8, DELTA),  # a number that may be an address
    ],
)
def test_what_may_differ(new: File, change: Callable[[File], None]) -> None:
    change(new)
    assert refused(new) == ""


def words(file: File) -> dict[str, list[tuple[str, int, int]]]:
    """Return each word of the *file* that has to be what it is, by its part: its name, where it is, and its size."""
    segments = [
        (f"{kind:#x} {name}", file.segment(kind, flags) + at, size)
        for kind, flags in ((2, RW), (4, R), (7, R), (6, R))
        for name, at, size in (("flags", 4, 4), ("address", 16, 8), ("memory", 40, 8), ("alignment", 48, 8))
        if (kind, name) not in ((6, "memory"), (2, "address"))
    ]
    sections = [
        (f"{name} {field}", file.section(name) + at, size)
        for name in (".text", ".data", ".bss", ".note", ".symtab")
        for field, at, size in (("type", 4, 4), ("flags", 8, 8), ("address", 16, 8), ("size", 32, 8))
        if (name, field) != (".symtab", "size")
    ]
    symbols = [
        (f"{number} {field}", TABLE + file.step.delta + 24 * number + at, size)
        for number in range(10)
        for field, at, size in (("name", 0, 4), ("kind", 4, 1), ("value", 8, 8), ("size", 16, 8))
    ]
    step, data = file.step, (0x1F7, 0x3F7, 0x150, 0x20B)
    bytes_of_data = [0x1800, 0x18FF, 0x1903, 0x1922, 0x3000, 0x300F, *(DATA + at for at in data)]
    packed = [("place", step(RELR) + 1, 1), ("bits", step(RELR) + 9, 1)]
    return {
        "header": [("e_type", 16, 2), ("e_entry", 24, 8)],
        "program header": segments,
        "section": sections,
        "dynamic section": [(str(number), step(DYNAMIC) + 8 * number, 8) for number in range(1, 44)],
        "relocation": [(str(number), step(RELA) + 8 * number, 8) for number in range(18)],
        "packed relocation": [*packed, *((f"{place:#x}", step(place), 8) for place in PACKED)],
        "symbol": [*symbols, *((f"dynamic {n}", step(SYMBOLS) + 24 * n + 8, 8) for n in range(3))],
        "code": [(f"{at:#x}", step(START) + at, 1) for at in (0, 1, 0x400, 0x7FF)],
        "data": [
            *((f"{at:#x}", step(at), 1) for at in bytes_of_data),
            *((f"{at:#x}", step(DATA + at), 8) for at in (0x103, 0x10B, 0x200, 0x3F8)),
        ],
    }


@pytest.mark.parametrize("part", words(File(STEPS["apart"], together=False)))
def test_each_word(new: File, part: str) -> None:
    for name, where, size in words(new)[part]:
        for number in (1, -1, 1 << (8 * size - 2), DELTA) if size == 8 else (1, -1):
            before = bytes(new.data)
            new.add(where, number, size)
            harmless = (number, where) == (DELTA, TABLE + DELTA + 24 * 3 + 8)
            assert refused(new) == ("" if harmless else part), (name, number)
            new.data[:] = before


def test_a_number_that_moved(new: File) -> None:
    """It would be an address in front of what moves."""
    new.add(new.step(DATA + 0x210), DELTA)
    assert refused(new) == "data"


@pytest.mark.parametrize("part", ["code", "data"])
def test_each_word_in_pieces(new: File, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hugealign.fixing.separation.check._PIECE", 64)
    assert refused(new) == ""
    for name, where, size in words(new)[part]:
        before = bytes(new.data)
        new.add(where, 1, size)
        assert refused(new) == part, name
        new.data[:] = before


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("program header", lambda file: file.add(56, -1, 2)),
        ("section", lambda file: file.add(60, -3, 2)),
        ("dynamic section", lambda file: file.at(file.step(DYNAMIC) + 16 * 21, bytes(8))),
        ("dynamic section", lambda file: file.at(file.step(DYNAMIC) + 16 * 22, b"\1")),
    ],
)
def test_one_less_or_more(new: File, part: str, change: Callable[[File], None]) -> None:
    change(new)
    assert refused(new) == part


def test_what_has_not_moved(new: File) -> None:
    """Each word of the dynamic section that is an address, and each symbol in what moves."""
    old = File(NOT_MOVED, new.step.room > 0)
    moved = 0
    for at in range(DYNAMIC + 8, DYNAMIC + 16 * 22, 16):
        before, there = bytes(new.data), new.step(at)
        if new.data[there : there + 8] != old.data[at : at + 8]:
            new.at(there, bytes(old.data[at : at + 8]))
            assert refused(new) in ("dynamic section", "bytes"), hex(at)
            new.data[:] = before
            moved += 1
    assert moved == (16 if new.step.room else 10)
    for number in (0, 1, 2, 6, 8, 9):  # symbols
        there, before = TABLE + DELTA + 24 * number + 8, bytes(new.data)
        new.at(there, bytes(old.data[there - DELTA : there - DELTA + 8]))
        assert refused(new) == "symbol", number
        new.data[:] = before


#: The program headers of the new file that the loader would not take, or that say more than the original's: what
#: is added to a word of a segment's header.
SEGMENTS: dict[str, list[tuple[int, int, int]]] = {
    "it overlaps the one before": [(R, 40, 0x1000 + DELTA), (R, 32, 0x1000 + DELTA)],
    "it reaches into the page of the next": [(RX, 40, 0x1001)],
    "its offset is not where its address is": [(RX, 8, 8)],
    "it is longer than the file": [(RW, 32, 0x100000)],
    "it ends behind the file": [(RW, 32, 0x12800)],
    "it is shorter": [(RW, 40, -1)],
    "its text is not executable": [(RX, 4, -1)],
    "its data are executable": [(R, 4, 2)],
    "its data are not writable": [(RW, 4, -2)],
}


@pytest.mark.parametrize("name", SEGMENTS)
def test_segments(new: File, name: str) -> None:
    for flags, field, number in SEGMENTS[name]:
        new.add(new.segment(1, flags) + field, number, 4 if field == 4 else 8)
    assert refused(new) == "segment"


def test_what_is_not_loaded_is_the_same(new: File) -> None:
    new.at(0x4100 + DELTA, b"W")
    assert refused(new) == "program header"


def test_a_header_that_cannot_be_read(new: File) -> None:
    for at, number in ((new.segment(2, RW), 1), (32, 1 << 40)):
        before = bytes(new.data)
        new.add(at, number)
        assert refused(new) == "header"
        new.data[:] = before
