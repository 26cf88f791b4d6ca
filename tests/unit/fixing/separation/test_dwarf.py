"""Addresses in debug information that is written here, byte by byte, and the work for what is made to cost much."""

import os
import struct
from collections.abc import Iterator

import pytest

from hugealign.fixing.separation import dwarf, dwarf_tables
from tests.support import steps

ADDR, DATA1, FLAG_PRESENT, SEC_OFFSET = 0x01, 0x0B, 0x19, 0x17
LOW_PC, RANGES, GNU_RANGES_BASE, GNU_ADDR_BASE, ADDR_BASE = 0x11, 0x55, 0x2132, 0x2133, 0x73


@pytest.fixture
def fd() -> Iterator[int]:
    made = os.memfd_create("sections")
    yield made
    os.close(made)


def contents(fd: int, sections: dict[str, bytes]) -> dict[str, dwarf_tables.Contents]:
    """Return *sections*, written one behind the other."""
    result: dict[str, dwarf_tables.Contents] = {}
    for name, data in sections.items():
        at = os.fstat(fd).st_size
        os.pwrite(fd, data, at)
        result[name] = dwarf_tables.Contents(fd, at, len(data))
    return result


def addresses(fd: int, sections: dict[str, bytes]) -> dict[str, list[int]]:
    """Return the places of addresses in *sections* that have any."""
    result = dwarf.find_addresses(contents(fd, sections))
    return {name: sorted(set(places)) for name, places in result.items() if places}


def leb(number: int) -> bytes:
    data = b""
    while number > 0x7F:
        data, number = data + bytes([number & 0x7F | 0x80]), number >> 7
    return data + bytes([number])


def abbreviation(code: int, *pairs: tuple[int, int]) -> bytes:
    return leb(code) + b"\x11\0" + b"".join(leb(a) + leb(f) for a, f in pairs) + b"\0\0"


def unit(entries: bytes, table: int = 0) -> bytes:
    """Return a unit of version 4 whose abbreviations are at *table*."""
    data = struct.pack("<HIB", 4, table, 8) + entries
    return struct.pack("<I", len(data)) + data


def words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def test_split_units_of_version_4(fd: int) -> None:
    """Tables of addresses have no header, and ranges are those from a unit's base on, up to what others refer to."""
    info = unit(b"\1" + words(0) + struct.pack("<II", 0, 0)) + unit(b"\1" + words(0x1000) + struct.pack("<II", 24, 48))
    info += unit(b"\2" + words(0x5000) + struct.pack("<I", 80))
    tables = abbreviation(1, (LOW_PC, ADDR), (GNU_ADDR_BASE, SEC_OFFSET), (GNU_RANGES_BASE, SEC_OFFSET))
    tables += abbreviation(2, (LOW_PC, ADDR), (RANGES, SEC_OFFSET)) + b"\0"
    ranges = words(1, 2, 3, 4, 0, 0) + words(5, 6, 0, 0) + words(7, 8, 0, 0)
    sections = {
        ".debug_info": info,
        ".debug_abbrev": tables,
        ".debug_addr": words(1, 2, 3, 4, 5),
        ".debug_ranges": ranges,
    }
    assert addresses(fd, sections) == {
        ".debug_info": [12, 40, 68],
        ".debug_addr": [0, 8, 16, 24, 32],
        ".debug_ranges": [0, 8, 16, 24],  # of the unit without an address of its own
    }


def test_frames(fd: int) -> None:
    """Where functions begin, and what instructions set."""
    common = b"\xff\xff\xff\xff\4\0\x08\0\1\x7c\x10" + b"\x0c\7\x08" + b"\x90\1"
    function = struct.pack("<IQQ", 0, 1, 2) + b"\x41\1" + words(3) + b"\x0f\x0a\3" + words(4) + b"\6" + b"\xc3\0"
    data = b"".join(struct.pack("<I", len(part)) + part for part in (common, function))
    start = len(common) + 8
    assert addresses(fd, {".debug_frame": data}) == {".debug_frame": [start + 4, start + 22, start + 33]}


@pytest.mark.parametrize("data", [b"zR\0", b"eh\0"])
def test_frames_with_an_augmentation(data: bytes, fd: int) -> None:
    part = b"\xff\xff\xff\xff\1" + data + b"\1\x7c\x10"
    with pytest.raises(dwarf_tables.UnclearError) as caught:
        addresses(fd, {".debug_frame": struct.pack("<I", len(part)) + part})
    assert caught.value.section == ".debug_frame"


def costly() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield what many units refer to again and again."""
    table = b"".join(abbreviation(code, (LOW_PC, ADDR)) for code in range(1, 2000)) + b"\0"
    starts = range(0, len(table) // 2, 7)
    yield "tables within tables", {".debug_abbrev": table, ".debug_info": b"".join(unit(b"\0", at) for at in starts)}
    flags = abbreviation(1, *[(3, FLAG_PRESENT)] * 4000) + b"\0"
    yield "attributes of no size", {".debug_abbrev": flags, ".debug_info": unit(b"\1") * 1500}
    yield "one table", {".debug_abbrev": table, ".debug_info": unit(b"\1" + words(1)) * 1500}
    lists = words(*range(1, 4001)) + words(0, 0)
    refer = abbreviation(1, (RANGES, SEC_OFFSET)) + b"\0"
    info = b"".join(unit(b"\1" + struct.pack("<I", at)) for at in range(0, 16000, 16))
    yield "lists within lists", {".debug_abbrev": refer, ".debug_info": info, ".debug_ranges": lists}


@pytest.mark.parametrize(("kind", "sections"), list(costly()))
def test_work_is_in_proportion_to_the_size(kind: str, sections: dict[str, bytes], fd: int) -> None:
    def work() -> None:
        try:
            dwarf.find_addresses(result)
        except dwarf_tables.UnclearError:
            assert kind != "one table"

    result = contents(fd, sections)
    assert steps(work) < 100 * sum(map(len, sections.values()))
