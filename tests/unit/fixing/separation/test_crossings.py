"""Which bytes of a file are a distance across its break, in files of a few hundred bytes that are written here.

In front of the break, at 0x1000, are the headers, a note and the name of the interpreter.
"""

import struct
import tempfile

import pytest

from hugealign.code import x86
from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.image import Image, Section, Segment
from hugealign.errors import MalformedElfError
from hugealign.fixing.separation import crossings, distances
from hugealign.fixing.separation.crossings import refuse_crossings

START, END, PAGE = 0x1000, 0x9000, 0x1000
NOTE, NAME, TEXT, CONSTANTS, UNWIND, DATA = 0x300, 0x400, 0x1000, 0x5000, 0x6000, 0x7000
HEADERS = 64 + 3 * 56
NAMES = 0x8000
ALLOC, CODE = 2, 6
X86_64, AARCH64 = 62, 183
ADDRESSES = {"note": NOTE, "hash": 0x500, "text": TEXT, "constants": CONSTANTS, "unwind": UNWIND, "data": DATA}


def refusal(
    machine: int = X86_64,
    symbols: tuple[tuple[str, int, int, int], ...] = (),
    comment: bytes = b"",
    table_type: int = 2,
    start: int = START,
    name: int = NAME,
    **contents: bytes,
) -> tuple[str, int, int] | str:
    """Return the code, place and address with which a file of these *contents* is refused; empty if it is not.

    *symbols*: name, section, type, value.
    """
    data = bytearray(END)
    for where, part in contents.items():
        at = start if where == "text" else ADDRESSES[where]
        data[at : at + len(part)] = part
    names, table = b"\0", b""
    for symbol, section, kind, value in symbols:
        table += struct.pack("<IBxHQQ", len(names), kind, section, value, 0)
        names += symbol.encode() + b"\0"
    data[NAMES : NAMES + len(names)] = names
    data[NAMES + 0x200 : NAMES + 0x200 + len(table)] = table
    data[NAMES + 0x400 : NAMES + 0x400 + len(comment)] = comment
    sections = (
        Section("", 0, 0, 0, 0, 0),
        Section(".gnu.hash", 1, ALLOC, 0x500, 0x500, 0x40),  # which nothing can name
        Section(".interp", 1, ALLOC, name, name, 16),
        Section(".note", 7, ALLOC, NOTE, NOTE, len(contents.get("note", bytes(16))), sh_addralign=4),
        Section(".text", 1, CODE, start, start, len(contents.get("text", bytes(16)))),
        Section(".rodata", 1, ALLOC, CONSTANTS, CONSTANTS, 0x1000, sh_addralign=8),
        Section(".eh_frame", 1, ALLOC, UNWIND, UNWIND, 0x100),
        Section(".got", 1, 3, DATA, DATA, 0x100),
        Section(".symtab", table_type, 0, 0, NAMES + 0x200, len(table), sh_link=9),
        Section(".strtab", 3, 0, 0, NAMES, len(names)),
        Section(".comment", 1, 0, 0, NAMES + 0x400, len(comment)),
        Section(".bss", 8, 3, UNWIND, UNWIND, 0x100),  # which has nothing in the file
    )
    loads = [(4, 0, start), (5, start, 0x5000 - start), (6, CONSTANTS, 0x3000)]
    segments = tuple(
        Segment(1, flags, at, at, size, size, PAGE, index=i, header=64 + 56 * i)
        for i, (flags, at, size) in enumerate(loads)
    )
    image = Image(3, machine, segments, sections, len(data), e_entry=TEXT)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        try:
            refuse_crossings(file.fileno(), image, start)
        except RefusalError as error:
            facts = error.diagnosis.facts
            if "symbol" in facts:
                return str(facts["symbol"])
            if "place" not in facts:
                return error.diagnosis.code
            return error.diagnosis.code, int(str(facts["place"]), 16), int(str(facts["address"]), 16)
    return ""


def distance(target: int, origin: int) -> bytes:
    return struct.pack("<i", target - origin)


def lea(at: int, target: int) -> bytes:
    """LEA of *target*, with which an instruction of seven bytes at *at* ends."""
    return b"\x48\x8d\x05" + distance(target, at + 7)


NOPS = b"\x90" * 16
SEEN, MAYBE = "fix.crosses", "fix.may-cross"


@pytest.mark.parametrize(
    ("target", "refused"),
    [
        (0, True),
        (0x10, True),
        (START - 1, True),
        (START, False),
        (START + 0x10, False),
        (-0x1000, True),  # code may add something
        (-(1 << 16) - 4, True),
        (-(1 << 16) - 5, False),
        (-(1 << 17), False),
    ],
)
@pytest.mark.parametrize("proven", [True, False])
def test_code(target: int, refused: bool, proven: bool) -> None:
    before = NOPS if proven else b"\xc3" * 16
    code = before + lea(TEXT + 16, target) + b"\xc3"
    expected = (SEEN if proven else MAYBE, TEXT + 19, target)
    assert refusal(text=code) == (expected if refused else "")


@pytest.mark.parametrize(
    ("behind", "target", "refused"), [(1, START - 1, True), (1, START, False), (0, START - 1, True)]
)
def test_an_operand_behind_the_distance(behind: int, target: int, refused: bool) -> None:
    """Which address the distance counts from is known where the instruction is."""
    code = b"\x80\x3d" if behind else b"\x8b\x05"  # CMP of a byte, MOV
    text = NOPS + code + distance(target, TEXT + 16 + 6 + behind) + b"\x05" * behind + b"\xc3"
    assert refusal(text=text) == ((SEEN, TEXT + 18, target) if refused else "")


def test_four_bytes_of_other_instructions() -> None:
    """MOV with an operand that would lead there, if it were a distance; not where it is not proven."""
    operand = distance(0x10, TEXT + 16 + 7)
    assert refusal(text=NOPS + b"\x48\xb8\x05" + operand + b"\x00\x00\x00\xc3") == ""
    text = b"\xc3" * 16 + b"\x48\xb8\x05" + operand + b"\x00\x00\x00\xc3"
    assert refusal(text=text) == (MAYBE, TEXT + 19, 0x10 - 4)


def test_the_large_code_model() -> None:
    """A distance of eight bytes from the global offset table."""
    for opcode, to, refused in ((b"\x48\xb8", 0x10, True), (b"\x49\xbf", START - 1, True), (b"\x48\xb8", START, False)):
        text = b"\x90" + opcode + struct.pack("<q", to - DATA) + b"\xc3"
        assert refusal(text=text) == ((MAYBE, TEXT + 3, to) if refused else "")
    assert refusal(text=b"\x90\x48\xb8" + struct.pack("<q", -DATA - 1) + b"\xc3") == ""
    assert refusal(text=b"\x90\x48\xb8" + struct.pack("<q", -DATA) + b"\xc3") == (MAYBE, TEXT + 3, 0)


@pytest.mark.parametrize(
    ("at", "target", "refused"),
    [
        (0x100, 0, True),
        (0x100, HEADERS - 1, True),
        (0x100, HEADERS, False),
        (0x100, NOTE, True),
        (0x100, NOTE + 16, True),  # its end
        (0x100, NOTE + 17, False),
        (0x100, NAME + 16, True),
        (0x100, START, False),
        (0x101, 0x10, True),
        (0x101, NOTE, True),
        (0x101, -x86.LONGEST, True),
        (0x101, -x86.LONGEST - 1, False),
        (0x101, NOTE - x86.LONGEST, True),
        (0x101, NOTE - x86.LONGEST - 1, False),
        (0x101, NAME + 17, False),
        (0x100, 0x510, False),
        (0xFFC, 0x10, True),
    ],
)
def test_words_of_data(at: int, target: int, refused: bool) -> None:
    place = CONSTANTS + at
    # No table: the word before leads nowhere.
    constants = (b"\xff\xff\xff\x7f" * 0x400)[:at] + distance(target, place)
    assert refusal(constants=constants) == ((MAYBE, place, target) if refused else "")
    assert refusal(unwind=constants[-8:] if at % 4 == 0 else b"") == ""


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        # Distances from the table's beginning: to its end, and to the header; the second is 4 too far, from its place.
        ((0x10, 0x10 - CONSTANTS), True),
        ((0x10, 0x20, 0x30, 0x40, 0x50, 0xE0 - CONSTANTS), True),
        ((0x10, 0x20, 0x30, NOTE - CONSTANTS), True),
        ((0x10, 0x200 - CONSTANTS), False),  # nothing can name that
        ((0x10, NOTE + 16 - CONSTANTS), True),
        ((0x10, NOTE + 17 - CONSTANTS), False),
        ((0x7FFFFFFF, NOTE + 17 + 4 - CONSTANTS), False),  # a word before it that leads nowhere
        ((0x10, -CONSTANTS - 0x40), False),
        ((0x2FFF, NAME + 16 - CONSTANTS), True),
        ((0x3000, NAME + 16 - CONSTANTS), False),
    ],
)
def test_tables_of_distances(words: tuple[int, ...], refused: bool) -> None:
    constants = struct.pack(f"<{len(words)}i", *words) + b"\xff\xff\xff\x7f" * 16
    place = CONSTANTS + 4 * len(words) - 4
    assert refusal(constants=constants) == ((MAYBE, place, words[-1] + place) if refused else "")


def test_a_table_within_a_section() -> None:
    """Behind words that lead nowhere; nothing in the sum of addresses depends on where it begins."""
    begin = CONSTANTS + 12
    constants = b"\xff\xff\xff\x7f" * 3 + struct.pack("<2i", 0x10, NOTE + 16 - begin) + b"\xff\xff\xff\x7f"
    assert refusal(constants=constants) == (MAYBE, begin + 4, NOTE + 16 + 4)


def test_how_far_a_table_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crossings, "_TABLE_LIMIT", 8)
    for before, refused in ((2, True), (3, False)):
        words = (*[0x10] * before, NAME + 16 - CONSTANTS)
        constants = struct.pack(f"<{len(words)}i", *words) + b"\xff\xff\xff\x7f"
        place = CONSTANTS + 4 * before
        assert refusal(constants=constants) == ((MAYBE, place, words[-1] + place) if refused else "")


def test_where_the_byte_before_is_not_proven() -> None:
    """A branch passes over what could be the beginning of an instruction; four proven bytes follow."""
    place = TEXT + 0x50
    operand = distance(0xC, place + 4)
    assert operand[0] == 0xB8  # MOV
    text = (b"\xeb\x01\x05" + operand + b"\x00\xc3").rjust(0x50 + 6, b"\x90")
    assert text[0x50:0x54] == operand
    assert refusal(text=text) == (MAYBE, place, 0xC)


def test_an_operand_at_the_end_of_a_jump() -> None:
    """JMP by an absolute address: nothing is proven of what follows."""
    assert refusal(text=NOPS + b"\xff\x24\x25" + distance(0x10, TEXT + 19) + b"\xc3") == ""


def test_words_in_code() -> None:
    """Where it is not proven that they are instructions; also behind the first bytes of one."""
    for before, refused in ((NOPS, False), (b"\xc3" * 16, True)):
        text = before + b"\xb8" + distance(0x10, TEXT + 17) + b"\xc3"  # MOV with an operand
        assert refusal(text=text) == ((MAYBE, TEXT + 17, 0x10) if refused else "")
    text = NOPS + b"\xb8\x01\x02" + distance(0x10, TEXT + 19) + b"\xc3"
    assert refusal(text=text) == (MAYBE, TEXT + 19, 0x10)


def note(kind: int, *words: bytes, name: bytes = b"GNU\0") -> bytes:
    data = b"".join(words)
    return struct.pack("<III", len(name), len(data), kind) + name + data


@pytest.mark.parametrize(
    ("kind", "name", "at", "refused"),
    [
        (3, b"GNU\0", 0, False),
        (6, b"GNU\0", 0, True),
        (6, b"GNU\0", 1, True),
        (6, b"GNU\0", 5, False),  # it lies across the end
        (3, b"ABC\0", 0, True),
        (5, b"GA$\0", 0, False),
        (3, b"stapsdt\0", 0, False),
        (4, b"stapsdt\0", 0, True),
        *((kind, b"GNU\0", 0, False) for kind in (1, 4, 5)),
        (1, b"hugealign\0\0\0", 0, False),
        (2, b"hugealign\0\0\0", 0, True),
        (4, b"Go\0\0", 0, False),
        (5, b"Go\0\0", 0, True),
        (0xCAFE1A7E, b"FDO\0", 0, False),
        (0x407C0C0A, b"FDO\0", 0, False),
        (0x407C0C0B, b"FDO\0", 0, True),
    ],
)
@pytest.mark.parametrize("to", [START, END - 0x1001, START - 1, END - 0x1000])
def test_notes(kind: int, name: bytes, at: int, refused: bool, to: int) -> None:
    place = NOTE + 12 + len(name) + at
    data = (bytes(at) + distance(to, place) + bytes(8))[:8]
    inside = START <= to < END - 0x1000
    assert refusal(note=note(kind, data, name=name)) == ((MAYBE, place, to) if refused and inside else "")


def test_what_are_no_notes() -> None:
    assert refusal(hash=note(6, distance(START, 0x510), bytes(4))) == ""


def test_what_follows_the_last_note() -> None:
    data = note(3, bytes(8))
    rest = b"\xff\xff\xff\x7f" + distance(START, NOTE + len(data) + 4)  # a name without end
    assert refusal(note=data + rest) == (MAYBE, NOTE + len(data) + 4, START)


OBJECT, SECTION, FILE, THREAD = 1, 3, 4, 6
ABSOLUTE = 0xFFF1


@pytest.mark.parametrize(
    ("symbol", "comment", "refused"),
    [
        (("mine", 1, OBJECT, 0x10), b"", True),
        (("mine", 1, OBJECT, START - 1), b"", True),
        (("mine", 1, OBJECT, START), b"", False),
        (("mine", 0, OBJECT, 0x10), b"", False),
        (("mine", 9, OBJECT, 0x10), b"", False),  # of the file alone
        (("mine", 1, SECTION, 0x10), b"", False),
        (("mine", 1, FILE, 0x10), b"", False),
        (("mine", 1, THREAD, 0x10), b"", False),
        (("__abi_tag", 1, OBJECT, 0x10), b"", False),
        (("__abi_tags", 1, OBJECT, 0x10), b"", True),
        (("$d.1", 1, OBJECT, 0x10), b"", False),
        (("$e", 1, OBJECT, 0x10), b"", True),
        (("__ehdr_start", 1, OBJECT, 0), b"", True),
        (("__ehdr_start", ABSOLUTE, OBJECT, 0), b"", True),
        (("__ehdr_start", 1, OBJECT, 0), b"mold 1.10", False),
        (("__start_EHDR", 1, OBJECT, 0), b"a mold 1.10", False),
        (("__stop_PHDR", 1, OBJECT, 0), b"a mould", True),
        (("mine", 1, OBJECT, 0), b"mold 1.10", True),
        (("number", ABSOLUTE, OBJECT, 0x10), b"", False),
        (("number", 0xFEFF, OBJECT, 0x10), b"", True),
        (("number", 0xFF00, OBJECT, 0x10), b"", False),
    ],
)
def test_symbols(symbol: tuple[str, int, int, int], comment: bytes, refused: bool) -> None:
    for kind in (2, 11, 3):
        result = refusal(
            symbols=(("other", 3, 2, TEXT), symbol), comment=comment, table_type=kind, constants=b"mold 1.10"
        )
        assert result == (symbol[0] if refused and kind != 3 else "")


def adr(at: int, target: int, page: bool = False) -> int:
    distance = (target >> 12) - (at >> 12) if page else target - at
    return 0x10000000 | page << 31 | (distance & 3) << 29 | (distance >> 2 & 0x7FFFF) << 5 | 1


def literal(at: int, target: int, opcode: int = 0x58000000) -> int:
    return opcode | (target - at >> 2 & 0x7FFFF) << 5


NOP = 0xD503201F


@pytest.mark.parametrize(
    ("word", "target"),
    [
        (adr(TEXT + 4, 0x10), 0x10),
        (adr(TEXT + 4, START - 1), START - 1),
        (adr(TEXT + 4, START), None),
        (adr(TEXT + 4, 0), 0),
        (adr(TEXT + 4, -4), None),
        (adr(TEXT + 4, 0x20, page=True), 0),
        (adr(TEXT + 4, TEXT, page=True), None),
        (adr(TEXT + 4, CONSTANTS, page=True), None),
        *((literal(TEXT + 4, 0x20, opcode), 0x20) for opcode in (0x18000000, 0x58000000, 0x98000000, 0x1C000000)),
        (literal(TEXT + 4, TEXT + 8), None),
        (literal(TEXT + 4, 0x20, 0x54000000), None),  # a branch
        (literal(TEXT + 4, 0x20, 0x34000000), None),
    ],
)
def test_code_of_aarch64(word: int, target: int | None) -> None:
    text = struct.pack("<4I", NOP, word, NOP, NOP)
    assert refusal(AARCH64, text=text) == ("" if target is None else (SEEN, TEXT + 4, target))
    assert refusal(AARCH64, text=b"\0\0" + text[:-2]) == ""  # not where an instruction is


def test_words_in_code_of_aarch64() -> None:
    for at, refused in ((4, True), (6, False)):
        text = (bytes(at) + distance(0x10, TEXT + at)).ljust(16, b"\0")
        assert refusal(AARCH64, text=text) == ((MAYBE, TEXT + at, 0x10) if refused else "")


def test_many_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    text = NOPS + b"\x48\xb8\x05" + distance(0x10, TEXT + 16 + 7) + b"\x00\x00\x00\xc3"
    for limit, code in ((1, ""), (0, "fix.many-addresses")):
        monkeypatch.setattr(crossings, "_CANDIDATES_LIMIT", limit)
        assert refusal(text=text) == code


def test_a_section_beyond_the_file() -> None:
    sections = (Section(".text", 1, CODE, TEXT, TEXT, 0x10),)
    segments = (Segment(1, 5, TEXT, TEXT, 0x10, 0x10, PAGE),)
    with tempfile.TemporaryFile() as file:
        file.truncate(TEXT + 0x10)
        with pytest.raises(MalformedElfError):
            refuse_crossings(file.fileno(), Image(3, AARCH64, segments, sections, TEXT + 0xF), START)


def test_code_in_front_of_the_break() -> None:
    sections = (Section(".text", 1, CODE, TEXT - 1, TEXT - 1, 0x10),)
    segments = (Segment(1, 5, TEXT, TEXT, 0x10, 0x10, PAGE),)
    with tempfile.TemporaryFile() as file, pytest.raises(RefusalError) as caught:
        refuse_crossings(file.fileno(), Image(3, X86_64, segments, sections, 0x10000), START)
    assert caught.value.diagnosis.facts == {"place": hex(TEXT - 1), "address": hex(START)}


@pytest.mark.parametrize("proven", [True, False])
def test_a_call(proven: bool) -> None:
    for call, where in ((b"\xe8", 17), (b"\x0f\x84", 18)):
        place = TEXT + where
        text = (NOPS if proven else b"\xc3" * 16) + call + distance(0x10, place + 4) + b"\xc3"
        assert refusal(text=text) == (SEEN if proven else MAYBE, place, 0x10)


@pytest.mark.parametrize("at", range(0, 100, 4))
def test_across_pieces(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a file is cut in order to be searched."""
    monkeypatch.setattr(distances, "_PIECE", 32)
    assert refusal(text=b"\x90" * at + lea(TEXT + at, 0x10) + b"\xc3") == (SEEN, TEXT + at + 3, 0x10)
    movabs = b"\x48\xb8" + struct.pack("<q", 0x10 - DATA) + b"\xc3"
    assert refusal(text=b"\x90" * (at + 2) + movabs) == (MAYBE, TEXT + at + 4, 0x10)
    text = struct.pack("<I", NOP) * (at // 4) + struct.pack("<II", adr(TEXT + at, 0x10), NOP)
    assert refusal(AARCH64, text=text) == (SEEN, TEXT + at, 0x10)
    assert refusal(constants=b"\xff\xff\xff\x7f" * (at // 4) + distance(0x10, CONSTANTS + at))


@pytest.mark.parametrize(
    ("named", "added", "refused"),
    [
        (NAME, 0x10, False),  # nothing of this page has a name
        (0x1400, 0x7FF, True),
        (0x1400, 0x800, False),  # it is behind the break
        (0x1400, None, True),
        (0xFF0, 0x10, True),  # its end, which has a name, is the first byte of the page
        (0xFEF, 0x10, False),
    ],
)
def test_a_break_within_a_page(named: int, added: int | None, refused: bool) -> None:
    """ADRP gives the page of what moves, and of what does not."""
    start = 0x1800
    after = NOP if added is None else 0x91000021 | added << 10
    text = struct.pack("<4I", NOP, adr(start + 4, 0x1000, page=True), after, NOP)
    assert refusal(AARCH64, start=start, name=named, text=text) == ((SEEN, start + 4, 0x1000) if refused else "")
    text = struct.pack("<4I", NOP, adr(start + 4, 0x1000), after, NOP)  # ADR: not of the page, but of the address
    assert refusal(AARCH64, start=start, name=named, text=text) == (SEEN, start + 4, 0x1000)


ADRP, OTHER_ADRP = 0x90000001, 0x90000002
DOUBT = -1 << 12


def add(target: int, base: int, number: int) -> int:
    return 0x91000000 | number << 10 | base << 5 | target


def load(size: int, target: int, base: int, number: int) -> int:
    return 0x39400000 | size << 30 | number << 10 | base << 5 | target


@pytest.mark.parametrize(
    ("words", "least"),
    [
        ([add(1, 1, 0x123)], 0x123),
        ([add(1, 1, 0xFFF)], 0xFFF),
        ([add(2, 1, 0x100), add(1, 1, 0x40)], 0x40),
        ([add(2, 1, 0x40), add(1, 1, 0x100)], 0x40),
        *(([load(size, 1, 1, 3)], 3 << size) for size in range(4)),
        ([load(3, 0, 1, 3), 0xD2800001], 24),  # MOVZ x1
        ([0xD2800001], 1 << 12),
        ([0x52800001], 1 << 12),
        ([0xAA0203E1], 1 << 12),  # MOV x1, x2
        ([0xAA0103E1], DOUBT),  # MOV x1, x1
        ([ADRP], 1 << 12),
        ([OTHER_ADRP, add(1, 1, 8)], 8),
        ([NOP], DOUBT),
        ([], DOUBT),
        ([0xD2800045, add(1, 1, 8)], 8),  # MOVZ x5, #2
        ([0xD2800405, add(1, 1, 8)], 8),  # MOVZ x5, #32, #2048: its bits are no register here
        ([0xD2810005, add(1, 1, 8)], 8),
        ([0xD2800025, add(1, 1, 8)], DOUBT),  # MOVZ x5, #1: a field has the number of the register
        ([0x8B050083, add(1, 1, 8)], 8),  # ADD x3, x4, x5
        ([0x8B010083, add(1, 1, 8)], DOUBT),  # ADD x3, x4, x1
        ([0x8B050023, add(1, 1, 8)], DOUBT),  # ADD x3, x1, x5
        ([0x8B050081, add(1, 1, 8)], DOUBT),  # ADD x1, x4, x5
        ([0x9B050483, add(1, 1, 8)], DOUBT),  # MADD x3, x4, x5, x1
        ([0xF9000020, add(1, 1, 8)], DOUBT),  # STR x0, [x1]
        ([0xF9000440, add(1, 1, 8)], 8),  # STR x0, [x2, #8]
        ([load(3, 1, 2, 1), add(1, 1, 8)], DOUBT),  # another value
        ([0x14000000, add(1, 1, 8)], DOUBT),  # B
        ([0x54000000, add(1, 1, 8)], DOUBT),  # B.EQ
        ([0xD503201F] * 3, DOUBT),
    ],
)
def test_what_is_added_to_a_page(words: list[int], least: int) -> None:
    assert crossings._added(struct.pack(f"<{len(words) + 1}I", ADRP, *words)) == least


@pytest.mark.parametrize("count", [14, 15, 16])
def test_how_far_what_is_added_is_looked_for(count: int) -> None:
    text = struct.pack(
        f"<{count + 4}I", NOP, adr(0x1804, 0x1000, page=True), *[0x8B050083] * count, add(1, 1, 0xFFF), NOP
    )
    assert (refusal(AARCH64, start=0x1800, name=0x1400, text=text) == "") == (count < 16)
