"""When only a plain link can say what a program is guarded by, and what is said of an output, as tables."""

import struct
from pathlib import Path

import pytest

from hugealign.elf.guards import Guards
from hugealign.elf.image import Image, Section, Segment
from hugealign.link import check
from hugealign.link.command import parse
from hugealign.link.linkers import named
from hugealign.settings import Settings

M = 2 << 20
R, RX, RW = 4, 5, 6
FULL = Guards()


def image(*names: str) -> Image:
    sections = tuple(Section(name, 1, 3, 0x3000, 0x3000, 8) for name in names)
    return Image(3, 62, (), sections, 0x4000)


@pytest.mark.parametrize(
    ("words", "guards", "sections", "doubtful"),
    [
        ("-z noexecstack", FULL, (), False),
        ("-z execstack", FULL, (), False),
        ("", FULL, (), True),  # the stack
        ("-z noexecstack", FULL.changed(writable_text=True), (), True),
        ("-z noexecstack", FULL.changed(grown_text=True), (), True),
        ("-z noexecstack", FULL.changed(stack=0, pie=False, textrel=True), (), False),  # not by what we add
        ("-z noexecstack", FULL.changed(relro=False), (), False),
        *(
            ("-z noexecstack", FULL.changed(relro=False), (".text", name), True)
            for name in (".dynamic", ".data.rel.ro", ".init_array", ".got")
        ),
        ("-z noexecstack", FULL.changed(relro=False), (".text", ".data"), False),
        ("-z noexecstack -z norelro", FULL.changed(relro=False), (".dynamic",), False),
        ("-z noexecstack -z norelro", FULL, (".dynamic",), False),
        ("-z noexecstack -z now", FULL.changed(bind_now=False), (".dynamic",), True),
        ("-z noexecstack -z now", FULL.changed(bind_now=False), (".text",), False),
        ("-z noexecstack -z now", FULL, (".dynamic",), False),
        ("-z noexecstack", FULL.changed(bind_now=False), (".dynamic",), False),
    ],
)
def test_doubtful(words: str, guards: Guards, sections: tuple[str, ...], doubtful: bool) -> None:
    assert check.doubtful(guards, image(*sections), parse(words.split())) == doubtful


def an_object(*names: str) -> bytes:
    """Return an object whose sections have these names, as far as its table of names says."""
    table = b"\0" + b"".join(name.encode() + b"\0" for name in names)
    ehdr = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 1, 62, 1, 0, 0, 64, 0, 64, 0, 0, 64, 1, 0)
    return ehdr + struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 128, len(table), 0, 0, 1, 0) + table


def archive(member: bytes) -> bytes:
    return b"!<arch>\n" + b"a.o/".ljust(48) + str(len(member)).encode().ljust(10) + b"`\n" + member


NOTED, SILENT = an_object(".text", ".note.GNU-stack"), an_object(".text", ".note.GNU-stack.no")


@pytest.mark.parametrize(
    ("inputs", "doubtful"),
    [
        ([NOTED], False),
        ([SILENT], True),
        ([SILENT, NOTED], False),
        ([archive(NOTED)], True),  # the linker may leave its members out
        ([b"", b"no object", archive(b"")[:-30], NOTED], False),
        ([NOTED[:100]], True),
        ([b"INPUT(a.o)"], True),
    ],
)
def test_which_inputs_decide_about_the_stack(inputs: list[bytes], doubtful: bool, tmp_path: Path) -> None:
    names = []
    for number, data in enumerate(inputs):
        names.append(str(tmp_path / f"{number}.o"))
        Path(names[-1]).write_bytes(data)
    command = parse([*names, str(tmp_path / "missing.o")])
    assert check.doubtful(FULL, image(), command) == doubtful


def laid_out(start: int = M, size: int = M, flags: int = RX, align: int = M) -> Image:
    segments = [(R, 0, 0x1000), (flags, start, size), (RW, 8 * M, 0x1000)]
    rows = [Segment(1, f, at, at, size, size, align, i, 64 + 56 * i) for i, (f, at, size) in enumerate(segments)]
    return Image(3, 62, tuple(rows), (), 9 * M)


LLD, GOLD = named("lld"), named("gold")


@pytest.mark.parametrize("mode", ["warn", "error", "off"])
def test_what_is_short_of_windows(mode: str) -> None:
    settings = Settings(check=mode)
    assert check.shortfall(laid_out(), LLD, settings) == ""
    said = check.shortfall(laid_out(align=0x1000, start=M + 0x1000), LLD, settings)
    if mode == "off":
        assert said == ""
        return
    assert said.endswith("hugealign explain HA002") or "hugealign explain HA" in said
    assert " more) [HA" in said
    two = check.shortfall(laid_out(size=M - 0x2000, flags=7), LLD, settings)
    assert " (and 1 more) [HA008]" in two
    one = check.shortfall(laid_out(size=M - 0x2000), LLD, settings)
    assert " more)" not in one
    assert "[HA004]" in one
    other = check.shortfall(laid_out(size=M - 0x2000), GOLD, settings)
    assert "[HA004]" in other
    assert other != one


def test_warnings_are_left_to_verify() -> None:
    data = Section(".rodata", 1, 2, M + 0x100, M + 0x100, 0x100)
    assert check.shortfall(laid_out().changed(sections=(data,)), LLD, Settings()) == ""


def test_a_program_that_would_not_start() -> None:
    assert check.broken(laid_out()) == ""
    reason = check.broken(laid_out().changed(file_size=M))
    assert reason.endswith("]")
    assert "[HA" in reason


def program(path: Path, image: Image) -> str:
    """Write the headers of *image* to a file of its size."""
    headers = b"".join(
        struct.pack(
            "<IIQQQQQQ", s.p_type, s.p_flags, s.p_offset, s.p_vaddr, s.p_vaddr, s.p_filesz, s.p_memsz, s.p_align
        )
        for s in image.segments
    )
    count = len(image.segments)
    ehdr = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, M, 64, 0, 0, 64, 56, count, 64, 0, 0)
    with path.open("wb") as file:
        file.write(ehdr + headers)
        file.truncate(image.file_size)
    return str(path)


@pytest.mark.parametrize(
    ("layout", "settings", "lacks", "codes"),
    [
        (laid_out(), Settings(), False, []),
        (laid_out(align=0x1000), Settings(), False, []),  # a warning
        (laid_out(size=M - 0x2000), Settings(), True, ["HA004"]),
        (laid_out(size=0x2000), Settings(), False, []),
        (laid_out(size=0x2000), Settings(min_text=0x2000), True, ["HA004"]),
        (laid_out(size=0x2000), Settings(min_text=0x2001), False, []),
        (laid_out(start=M + 0x1000, size=M), Settings(), True, ["HA003"]),
        (laid_out(flags=7), Settings(), True, ["HA008"]),
        (laid_out(flags=7, size=M - 0x2000), Settings(), True, ["HA008", "HA004"]),
        (laid_out(start=4 << 16, size=4 << 16), Settings(page_size=1 << 16), False, []),
    ],
)
def test_an_output(layout: Image, settings: Settings, lacks: bool, codes: list[str], tmp_path: Path) -> None:
    path = program(tmp_path / "output", layout)
    assert check.lacks_windows(path, settings) == lacks
    said = check.failure(path, settings)
    assert not codes or f"[{codes[0]}]" in said
    assert bool(said) == bool(codes)
    assert (" (and 1 more) [" in said) == (" more)" in said) == (len(codes) == 2)


def test_what_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    (tmp_path / "damaged").write_bytes(NOTED[:60])
    for name in ("text", "damaged", "missing"):
        assert not check.lacks_windows(str(tmp_path / name), Settings())
    assert check.failure(str(tmp_path / "text"), Settings()) == ""
