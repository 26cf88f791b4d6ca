"""What guards a program, as its headers say, in files of a few words; and what is less than another has."""

import struct
import tempfile

import pytest

from hugealign.elf.guards import (
    LOSSES,
    STACK_EXECUTABLE,
    STACK_GUARDED,
    STACK_UNSAID,
    Guards,
    read_guards,
    weaker,
)
from hugealign.elf.image import Image, Section, Segment

LOAD, DYNAMIC, STACK, RELRO, PROPERTY = 1, 2, 0x6474E551, 0x6474E552, 0x6474E553
R, RX, RW, RWX = 4, 5, 6, 7
NOTE = 0x200
X86_FEATURE_1_AND, AARCH64_FEATURE_1_AND = 0xC0000002, 0xC0000000


def guards(
    *segments: tuple[int, int, int, int, int],
    sections: tuple[Section, ...] = (),
    dynamic: tuple[tuple[int, int], ...] = (),
    note: bytes = b"",
    kind: int = 3,
    is64: bool = True,
    little: bool = True,
) -> Guards:
    """Return the guards of a file of *segments* (type, flags, address, file size, memory size) at their addresses."""
    data = bytearray(NOTE + len(note))
    data[NOTE:] = note
    data[0x100 : 0x100 + 16 * len(dynamic)] = b"".join(struct.pack("<QQ", *entry) for entry in dynamic)
    rows = [*segments, *([(DYNAMIC, RW, 0x100, 16 * len(dynamic), 0)] if dynamic else ())]
    headers = tuple(Segment(kind, flags, at, at, size, memory, 8) for kind, flags, at, size, memory in rows)
    image = Image(kind, 62, headers, sections, len(data), is64=is64, little=little)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return read_guards(file.fileno(), image)


def test_nothing_but_text() -> None:
    expected = Guards(stack=STACK_UNSAID, relro=False, bind_now=False)
    assert guards((LOAD, RX, 0x1000, 8, 8)) == expected
    assert guards((LOAD, RX, 0x1000, 8, 8), kind=2) == expected.changed(pie=False)
    assert Guards() == Guards(False, False, STACK_GUARDED, True, True, True, 0, False)


@pytest.mark.parametrize(
    ("flags", "stack"), [(RW, STACK_GUARDED), (RWX, STACK_EXECUTABLE), (RX, STACK_EXECUTABLE), (0, STACK_GUARDED)]
)
def test_stack(flags: int, stack: int) -> None:
    assert guards((STACK, flags, 0, 0, 0)).stack == stack
    assert STACK_EXECUTABLE < STACK_UNSAID < STACK_GUARDED


@pytest.mark.parametrize(
    ("flags", "size", "memory", "writable", "grown"),
    [
        (RX, 8, 8, False, False),
        (RWX, 8, 8, True, False),
        (RX, 8, 9, False, True),
        (RX, 9, 8, False, True),
        (RW, 8, 16, False, False),
        (1, 8, 8, False, False),
    ],
)
def test_text(flags: int, size: int, memory: int, writable: bool, grown: bool) -> None:
    result = guards((LOAD, RX, 0, 4, 4), (LOAD, flags, 0x1000, size, memory))
    assert (result.writable_text, result.grown_text) == (writable, grown)


@pytest.mark.parametrize(
    ("dynamic", "now", "textrel"),
    [
        (((24, 0),), True, False),  # DT_BIND_NOW
        (((30, 8),), True, False),  # DT_FLAGS: DF_BIND_NOW
        (((30, 4),), False, True),  # DF_TEXTREL
        (((30, 2), (0x6FFFFFFB, 1)), True, False),  # DT_FLAGS_1: DF_1_NOW
        (((0x6FFFFFFB, 8),), False, False),
        (((22, 0),), False, True),  # DT_TEXTREL
        (((30, 0), (30, 12)), False, False),  # the first of a tag counts
        (((30, 12), (30, 0)), True, True),
        (((0, 0), (30, 12)), False, False),  # behind the end
    ],
)
def test_dynamic_section(dynamic: tuple[tuple[int, int], ...], now: bool, textrel: bool) -> None:
    result = guards(dynamic=dynamic)
    assert (result.bind_now, result.textrel) == (now, textrel)


def section(name: str, address: int, size: int = 8) -> Section:
    return Section(name, 1, 3, address, address, size)


@pytest.mark.parametrize(
    ("memory", "sections", "relro"),
    [
        (0x100, (), True),
        (0, (), False),
        (0x100, (section(".dynamic", 0x3000),), True),
        (0x100, (section(".relro_padding", 0x3000),), False),
        (0x100, (section(".relro_padding", 0x3080), section(".got", 0x3000)), True),
        (0x100, (section(".relro_padding", 0x30FF), section(".got", 0x3100)), False),
        (0x100, (section(".relro_padding", 0x3000), section(".got", 0x2FFF)), False),
        (0x100, (section(".relro_padding", 0x3000), section(".got", 0x3010, 0)), False),
        (0x100, (section(".relro_padding", 0x3100),), True),
    ],
)
def test_relro(memory: int, sections: tuple[Section, ...], relro: bool) -> None:
    assert guards((RELRO, R, 0x3000, 0x80, memory), sections=sections).relro == relro


def features(*properties: tuple[int, bytes], step: int = 8, order: str = "<", kind: int = 5) -> bytes:
    """Return a note of *properties* (Linux Extensions to gABI)."""
    data = b""
    for number, value in properties:
        entry = struct.pack(order + "II", number, len(value)) + value
        data += entry.ljust(-(-len(entry) // step) * step, b"\0")
    return struct.pack(order + "III", 4, len(data), kind) + b"GNU\0" + data


BITS = (X86_FEATURE_1_AND, struct.pack("<I", 3))
OTHER = (0xC0008002, struct.pack("<I", 7))  # the instruction set that is needed


@pytest.mark.parametrize(
    ("note", "bits"),
    [
        (features(BITS), 3),
        (features(OTHER, BITS), 3),
        (features(BITS, OTHER), 3),
        (features((AARCH64_FEATURE_1_AND, struct.pack("<I", 5))), 5),
        (features(OTHER), 0),
        (features((X86_FEATURE_1_AND, bytes([9, 0, 0, 0, 0, 0, 0, 0]))), 0),  # another size
        (features((1, b"123456789"), BITS), 3),
        (features(BITS, kind=6), 0),
        *((features(BITS).replace(b"GNU", name), 0) for name in (b"GNX", b"FDO")),
        *((features(BITS, kind=kind), 0) for kind in (1, 4)),
        (features(kind=6) + features(BITS), 3),
        (features(OTHER) + features(BITS), 3),
        (features(BITS)[:-5], 0),  # cut off
        (b"", 0),
    ],
)
@pytest.mark.parametrize("by", ["segment", "section"])
def test_control_flow(note: bytes, bits: int, by: str) -> None:
    segments = [(PROPERTY, R, NOTE, len(note), len(note))] if by == "segment" else []
    sections = (section("", 0), Section(".note.gnu.property", 7, 2, 0, NOTE, len(note)))
    assert guards(*segments, sections=sections if by == "section" else (), note=note).features == bits


def test_control_flow_of_32_bits_and_of_the_other_byte_order() -> None:
    part = (PROPERTY, R, NOTE, 0x100, 0x100)
    assert guards(part, note=features((1, b"1234"), BITS, step=4), is64=False).features == 3
    note = features((1, b"1234"), (X86_FEATURE_1_AND, b"\0\0\0\2"), order=">")
    assert guards(part, note=note, little=False).features == 2


def test_a_segment_counts_before_a_section() -> None:
    sections = (Section(".note.gnu.property", 7, 2, 0, NOTE, 0x100),)
    assert guards((PROPERTY, R, NOTE, 0, 0), sections=sections, note=features(BITS)).features == 0


#: A file with each guard, and by the name of each, one without it.
WITHOUT = {
    "text-read-only": Guards(writable_text=True),
    "text-in-file": Guards(grown_text=True),
    "stack": Guards(stack=STACK_UNSAID),
    "relro": Guards(relro=False),
    "bind-now": Guards(bind_now=False),
    "pie": Guards(pie=False),
    "no-textrel": Guards(textrel=True),
    "control-flow": Guards(features=1),
}


@pytest.mark.parametrize("name", LOSSES)
def test_what_is_less(name: str) -> None:
    full, less = Guards(features=3), WITHOUT[name].changed(features=1 if name == "control-flow" else 3)
    assert weaker(less, full) == name
    assert weaker(full, less) == weaker(full, full) == weaker(less, less) == ""
    all_lost = Guards(True, True, STACK_EXECUTABLE, False, False, False, 0, True)
    assert weaker(all_lost, less.changed(features=0)) == next(other for other in LOSSES if other != name)


def test_other_features_are_no_fewer() -> None:
    assert weaker(Guards(features=1), Guards(features=2)) == "control-flow"
    assert weaker(Guards(features=7), Guards(features=2)) == ""
