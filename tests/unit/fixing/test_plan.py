"""The plan of a fix, on tables of segments as the linkers lay them out."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.fixrecord import SHIFT, Piece
from hugealign.elf.image import Image, Section, Segment
from hugealign.fixing.fix import FIX, UNDO, Fixed
from hugealign.fixing.plan import Plan, make_plan
from hugealign.fixing.report import lines

M = 2 << 20
K = 1 << 10
R, RX, RW = 4, 5, 6


def load(flags: int, vaddr: int, size: int, offset: int | None = None, bss: int = 0, align: int = 4096) -> Segment:
    return Segment(1, flags, vaddr if offset is None else offset, vaddr, size, size + bss, align)


def image(
    *loads: Segment, sections: tuple[Section, ...] = (), kind: int = 3, machine: int = 62, size: int | None = None
) -> Image:
    header = 64
    for index, segment in enumerate(loads):
        segment.index, segment.header = index, header + 56 * index
    end = max(segment.p_offset + segment.p_filesz for segment in loads)
    return Image(kind, machine, loads, sections, end if size is None else size)


def bfd() -> tuple[Segment, ...]:
    """GNU ld: offsets are addresses, data in whole pages."""
    return load(R, 0, 0x80000), load(RX, 0x80000, 5 * M), load(R, 5 * M + 0x80000, M), load(RW, 7 * M, 0x1000)


def lld() -> tuple[Segment, ...]:
    """LLD: each segment one page further in memory than in the file, no more."""
    return (
        load(R, 0, 0x80800),
        load(RX, 0x81800, 5 * M, 0x80800),
        load(RW, 5 * M + 0x82800, 0x800, 5 * M + 0x80800, bss=0x800),
    )


LAYOUTS = Path(__file__).with_name("layouts.txt").read_text(encoding="utf-8").split("\n\n")[2:]


def value(text: str) -> int:
    """Read a number of layouts.txt."""
    return sum(int(part[:-1]) * M if part.endswith("W") else int(part, 16) for part in text.split("+"))


def written(number: int) -> str:
    """Write a number as layouts.txt has it."""
    windows, rest = divmod(number, M)
    parts = [f"{windows}W"] * bool(windows) + [f"{rest:x}"] * bool(rest)
    return "+".join(parts) or "0"


def segment(line: str) -> Segment:
    flags, address, size, *more = line.split()
    start = value(address)
    offset = next((value(word[1:]) for word in more if word[0] == "@"), start)
    bss = next((value(word[1:]) for word in more if word[0] == "+"), 0)
    align = value(more[-1]) if "align" in more else 4096
    protection = sum(bit for letter, bit in zip(flags, (4, 2, 1), strict=True) if letter != "-")
    return load(protection, start, value(size), offset, bss, align)


def section(line: str) -> Section:
    name, kind, flags, address, size, *offset = line.split()
    start = value(address)
    return Section(name, int(kind), int(flags), start, value(offset[0][1:]) if offset else start, value(size))


def shown(one: Segment) -> str:
    words = [one.flags, written(one.p_vaddr), written(one.p_filesz)]
    words += [f"@{written(one.p_offset)}"] * (one.p_offset != one.p_vaddr)
    words += [f"+{written(one.p_memsz - one.p_filesz)}"] * (one.p_memsz != one.p_filesz)
    return " ".join(words + [f"align {written(one.p_align)}"] * (one.p_align != 4096))


def described(plan: Plan) -> list[str]:
    """Describe *plan* as layouts.txt does."""
    if not plan.edits:
        return ["nothing to do"]
    most = f", {plan.most} at most" if plan.most != plan.windows else ""
    covered, text, executable = map(written, (plan.covered, plan.text, plan.executable))
    head = (
        f"{plan.windows_before} -> {plan.windows} windows, {covered} of {text} covered, {executable} executable{most}"
    )
    pieces = [f"{written(item.source)}>{written(item.target)}+{written(item.size)}" for item in plan.pieces]
    pads = [f"{written(start)}-{written(end)}" for start, end in plan.pads]
    rows = (("cuts", [*map(written, plan.cuts)]), ("pads", pads), ("pieces", pieces[len(pieces) == 1 :]))
    return [head, *map(shown, plan.segments), *(" ".join((name, *row)) for name, row in rows if row)]


@pytest.mark.parametrize("row", LAYOUTS, ids=[row.lstrip("#").partition(":")[0] for row in LAYOUTS])
def test_layouts(row: str) -> None:
    lines = [line for line in row.splitlines() if line[0] != "#"]
    level, *words = lines[0].partition(": ")[2].split(", ")
    given = {name: value(number) for name, number in (word.split() for word in words)}
    end = next(at for at, line in enumerate(lines[1:], 1) if line[0] != " ")
    parts = [line.strip() for line in lines[1:end]]
    loads = [segment(line) for line in parts if line[0] in "R-"]
    sections = tuple(section(line) for line in parts if line[0] == ".")
    options = {name: given.pop(name) for name in ("max_executable", "min_text") if name in given}
    made = image(*loads, sections=sections, **given)
    try:
        result = described(make_plan(made, M, level, **options))
    except RefusalError as error:
        facts = error.diagnosis.facts.items()
        shown_facts = (f" {name}={written(fact) if isinstance(fact, int) else fact}" for name, fact in facts)
        result = [f"refused: {error.diagnosis.code}{''.join(shown_facts)}"]
    assert result == [line.strip() for line in lines[end:]]


def test_what_is_said() -> None:
    plan = make_plan(image(*bfd()), M)
    assert (plan.windows_before, plan.windows) == (0, 6)
    assert (plan.text, plan.covered_before, plan.covered) == (5 * M, 0, 5 * M)
    assert plan.executable == 0x80000 + M - 0x80000
    assert plan.pieces == (Piece(0, 0, 7 * M + 0x1000),)
    assert lines(Fixed("a\x1bb", FIX, 100 * K, 106 * K, "out", plan=plan)) == [
        "a\\x1bb: 0 -> 6 windows of 2.0 MiB",
        "  LOAD 0 (R--) becomes part of the text",
        "  LOAD 1 (R-E): 0x80000-0xa80000 becomes 0x0-0xc00000",
        "  LOAD 1 (R-E): p_align 4.0 KiB becomes 2.0 MiB",
        "  LOAD 2 (R--): 0xa80000-0xc80000 becomes 0xc00000-0xc80000",
        "  text in whole windows: 0.0 % of 10.0 MiB -> 100.0 % of 10.0 MiB",
        "  2.0 MiB of read-only data become executable",
        "  file: 100.0 KiB -> 106.0 KiB",
    ]
    assert lines(Fixed("a", UNDO, 106 * K, 100 * K, "a")) == ["a: restored, 100.0 KiB"]


def refused(headers: Image, level: str = SHIFT) -> tuple[str, Mapping[str, int | str]]:
    """The code and the facts of the diagnosis for a file that no plan can be made for."""
    with pytest.raises(RefusalError) as refusal:
        make_plan(headers, M, level)
    return refusal.value.diagnosis.code, refusal.value.diagnosis.facts


def test_too_many_segments() -> None:
    loads = [load(R, 0x1000 * i, 0x1000) for i in range(70)]
    headers = image(*loads, load(RX, 0x1000 * 70, 4 * M))
    assert refused(headers) == ("fix.many-segments", {"segments": 71})


def test_what_is_not_loaded_moves_with_its_contents() -> None:
    loads = lld()
    note = Segment(4, R, 0x81000, 0x82000, 0x20, 0x20, 4)
    made = image(*loads, note)
    plan = make_plan(made, M)
    assert next(s for s in plan.segments if s.p_type == 4).p_offset == 0x82000


def test_the_table_of_program_headers_says_its_own_size() -> None:
    phdr = Segment(6, R, 64, 64, 56 * 5, 56 * 5, 8)
    plan = make_plan(image(phdr, *bfd()), M)
    assert len(plan.segments) == 4  # the first R went into the text
    assert plan.segments[0].p_filesz == plan.segments[0].p_memsz == 56 * 4
    assert [s.index for s in plan.segments] == [0, 1, 2, 3]
