"""Every rule on files that real tools made: each names the findings of the whole file, so that it fires exactly there.

Where no tool makes the fault, a file that a linker made is patched; those are in PATCHED.
"""

import os
import struct
from pathlib import Path

import pytest

from hugealign.elf.image import read_file
from hugealign.elf.notes import BuildNote
from hugealign.verification.checking import check_fd
from hugealign.verification.model import FileReport
from hugealign.verification.rules import RULES, Policy
from tests.support import HUGEALIGN, LLVM, PAGE, Elf, need, need_compiler, run

M = 1 << 20
_MAX = "-Wl,-z,max-page-size=0x200000"
_SMALL_PAGES = "-Wl,-z,max-page-size=0x1000,-z,noseparate-code"
_BFD = f"-fuse-ld=bfd {_MAX} -Wl,-z,separate-code"
_LLD14 = f"-fuse-ld=lld -B{LLVM['lld14']}"

# 3 MiB of code; `main` and one function of libc of each age.
_SOURCES = {
    "text.s": ".text\n.globl code\ncode: .fill 3 << 20, 1, 0xc3\n",
    "main.c": "int main(void) { return 0; }\n",
    "old.c": '#include <stdio.h>\nint used(void) { return puts(""); }\n',
    "new.c": "double hypot(double, double);\ndouble used(double x) { return hypot(x, x); }\n",
    "start.s": ".globl main\nmain: .fill 4 << 20, 1, 0x90\n",
    "textrel.s": ".text\n.quad main\n",
    "write.s": '.section both,"awx",@progbits\n.fill 64, 1, 0xc3\n',
    "nops.s": '.section .hugealign.pad,"ax",@progbits\n.byte 0xcc\n',
    "nops.ld": "SECTIONS { .hugealign.pad : { KEEP(*(.hugealign.pad)) . = ALIGN(0x200000); } } INSERT AFTER .fini;\n",
}


def _note(**fields: object) -> str:
    data = BuildNote(**({"page_size": PAGE} | fields)).pack()  # type: ignore[arg-type]
    return '.section .note.hugealign,"a",@note\n.balign 4\n.byte ' + ",".join(map(str, data)) + "\n"


_SOURCES |= {
    "note.s": _note(hot_start=PAGE, hot_end=PAGE + M, windows=2, padded=True, profile=b"\1\2"),
    "many.s": _note(windows=99),
    "other.s": _note(page_size=32 * M),
    "hot.s": _note(hot_start=PAGE - M, hot_end=PAGE + M),
}

#: name: command with {h} for hugealign -> the rules that the file breaks, all of them.
MADE = {
    "good": ("{h} gcc main.o text.o", ""),
    "fixed": ("{h} gcc -no-pie main.o text.o", ""),
    "small": ("gcc main.o", ""),
    "aligned to 4 KiB": ("gcc -fuse-ld=bfd main.o text.o -Wl,-z,separate-code", "HA001 HA003 HA004"),
    "lld": (f"gcc {_LLD14} -no-pie main.o text.o", "HA002 HA003 HA004"),
    "lld aligned": (f"gcc {_LLD14} main.o text.o {_MAX}", "HA004 HA026"),
    "no pad": (f"gcc {_BFD} main.o text.o", "HA004"),
    "two texts": ("gcc -fuse-ld=bfd main.o write.o", "HA006 HA007 HA008"),
    "data among the text": (f"gcc -fuse-ld=gold main.o text.o {_MAX}", "HA004 HA009"),
    "text relocations": ("{h} gcc main.o text.o textrel.o -Wl,-z,notext", "HA010"),
    "for an old glibc": ("{h} gcc -shared text.o old.o", "HA011"),
    "for a new glibc": ("{h} gcc -shared text.o new.o -Wl,--no-as-needed -lm -nostartfiles", ""),
    "for musl": ("{h} musl-gcc -shared text.o old.o", "HA011"),
    "static PIE": ("{h} gcc -static-pie main.o text.o", "HA012"),
    "static": ("{h} gcc -static main.o text.o", ""),
    "relro too long": (f"gcc {_LLD14} main.o {_MAX} -Wl,-z,common-page-size=0x200000", "HA013"),
    "relro right": (f"gcc {_LLD14} main.o {_MAX}", ""),
    "relro too short": (f"gcc -fuse-ld=mold main.o {_MAX} -Wl,-z,separate-loadable-segments", "HA014"),
    "executable stack": ("{h} gcc main.o text.o -Wl,-z,execstack", "HA025"),
    "pad of NOPs": (f"gcc {_BFD} main.o text.o -Wl,-T,nops.ld nops.o", "HA015"),
    "note": ("{h} gcc main.o text.o note.o", ""),
    "more windows promised": ("{h} gcc main.o text.o many.o", "HA017"),
    "note of another size": ("{h} gcc main.o text.o other.o", "HA017"),
    "hot outside": ("{h} gcc main.o text.o hot.o", "HA018"),
    "far too aligned": (
        f"gcc {_LLD14} -static -no-pie -nostdlib -Wl,-e,main main.o -Wl,-z,max-page-size=0x40000000",
        "HA022",
    ),
    "base off the grid": (
        "gcc -no-pie -fuse-ld=bfd main.o text.o -Wl,-z,noseparate-code -Wl,-Ttext-segment=0x500000",
        "HA002 HA003 HA009 HA024",
    ),
    "base off the grid does not matter": (
        f"gcc -no-pie {_LLD14} main.o text.o -Wl,--image-base=0x500000",
        "HA002 HA003 HA004",
    ),
    "base on the grid": (
        f"gcc -no-pie -fuse-ld=bfd {_MAX} main.o text.o -Wl,-z,noseparate-code -Wl,-Ttext-segment=0x600000",
        "HA004 HA009",
    ),
    "PIE off the grid": (
        f"gcc {_LLD14} {_MAX} -Wl,-z,separate-code main.o text.o -Wl,--image-base=0x100000",
        "HA002 HA003 HA024",
    ),
    "static PIE for pages of 4 KiB": (
        f"gcc -static-pie -nostdlib -fuse-ld=bfd start.o -e main {_SMALL_PAGES} -Wl,-Ttext=0x201000",
        "HA003 HA027",
    ),
    "PIE on the grid": (
        f"gcc {_LLD14} {_MAX} -Wl,-z,separate-code main.o text.o -Wl,--image-base=0x200000",
        "HA004",
    ),
}

#: name: made from, command -> the rules.
TREATED = {
    "stripped": ("note", "strip -o {out} {file}", ""),
    "pad removed": ("note", "objcopy --remove-section=.hugealign.pad {file} {out}", "HA004 HA017 HA019"),
    "fixed afterwards": ("aligned to 4 KiB", f"{HUGEALIGN} fix {{file}} -o {{out}}", "HA009 HA028"),
    "debug of GNU": ("good", "objcopy --only-keep-debug {file} {out}", ""),
    "debug of LLVM": ("good", f"{LLVM['lld19']}/llvm-objcopy --only-keep-debug {{file}} {{out}}", "HA020"),
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("examine")
    for name, text in _SOURCES.items():
        stack = '.section .note.GNU-stack,"",@progbits\n' if name.endswith(".s") else ""
        (path / name).write_text(text + stack)
    run("gcc", "-c", "-O1", "-fPIC", *[n for n in _SOURCES if not n.endswith(".ld")], cwd=path, check=True)
    return path


def made(directory: Path, name: str) -> Path:
    """The file *name* of MADE, linked when first asked for."""
    path = directory / name
    words = MADE[name][0].replace("{h}", str(HUGEALIGN)).split()
    need_compiler(*words[words[0] == str(HUGEALIGN) :])
    if not path.exists():
        run(*words, "-o", path, cwd=directory, check=True)
    return path


def report(path: Path, **asked: object) -> FileReport:
    fd = os.open(path, os.O_RDONLY)
    try:
        return check_fd(fd, path.name, Policy(**asked))  # type: ignore[arg-type]
    finally:
        os.close(fd)


def ids(path: Path, **asked: object) -> list[str]:
    found = report(path, **asked)
    assert not found.reason
    return sorted({finding.rule.id for finding in found.findings})


@pytest.mark.parametrize("name", MADE)
def test_files_that_a_linker_made(name: str, directory: Path) -> None:
    assert ids(made(directory, name)) == MADE[name][1].split()


@pytest.mark.parametrize("name", TREATED)
def test_files_that_another_tool_treated(name: str, directory: Path) -> None:
    source, command, expected = TREATED[name]
    words = command.split()
    need(words[0])
    run(*[w.format(file=made(directory, source), out=directory / name) for w in words], check=True)
    assert ids(directory / name) == expected.split()


def test_a_debug_file_is_no_fault(directory: Path) -> None:
    run("objcopy", "--only-keep-debug", made(directory, "good"), directory / "debug", check=True)
    found = report(directory / "debug")
    assert (found.verdict, found.debug, found.coverage.text if found.coverage else None) == ("ok", True, 0)


def test_windows_against_a_processor(directory: Path) -> None:
    path = made(directory, "good")
    assert ids(path, cpu="tiny", itlb_2m=1) == ["HA016"]
    assert "tiny has 1 entries" in report(path, cpu="tiny", itlb_2m=1).findings[0].message
    assert ids(path, cpu="tiny", itlb_2m=2) == []


def segment(path: Path, which: int) -> int:
    """The file offset of the header of a loadable segment."""
    return read_file(path).load_segments[which].header


def patch(path: Path, directory: Path, *changes: tuple[int, str, int]) -> Path:
    data = bytearray(path.read_bytes())
    for offset, form, value in changes:
        struct.pack_into("<" + form, data, offset, value)
    target = directory / "patched"
    target.write_bytes(data)
    return target


P_OFFSET, P_VADDR, P_FILESZ, P_MEMSZ, P_ALIGN = 8, 16, 32, 40, 48


def test_patched_alignment(directory: Path) -> None:
    good = made(directory, "good")
    assert ids(patch(good, directory, (segment(good, 0) + P_ALIGN, "Q", 3 * M))) == ["HA021"]
    assert ids(patch(good, directory, (segment(good, 0) + P_ALIGN, "Q", 4 * M))) == []


def test_patched_order(directory: Path) -> None:
    good = made(directory, "good")
    text = read_file(good).load_segments[1]
    data = segment(good, 2)
    assert ids(patch(good, directory, (data + P_VADDR, "Q", 0x1000))) == ["HA023"]
    over = text.p_vaddr + text.p_memsz - 0x1000
    assert ids(patch(good, directory, (data + P_VADDR, "Q", over))) == ["HA005", "HA023"]


def test_patched_size(directory: Path) -> None:
    good = made(directory, "good")
    assert "HA006" in ids(patch(good, directory, (segment(good, 1) + P_FILESZ, "Q", 2 * M)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (P_MEMSZ, 1 << 47),
        (P_MEMSZ, (1 << 64) - 0x1000),
        (P_MEMSZ, 0x10),  # below p_filesz
        (P_VADDR, (1 << 47) - 0x1000),
        (P_OFFSET, 0x11),
        (P_OFFSET, 1 << 40),
    ],
)
def test_what_linux_does_not_start(field: int, value: int, directory: Path) -> None:
    """Of a PT_LOAD that holds no text; the program itself is the judge."""
    good = made(directory, "good")
    assert run(good).returncode == 0
    path = patch(good, directory, (segment(good, -1) + field, "Q", value))
    path.chmod(0o755)
    assert run(path).returncode != 0
    assert "HA029" in ids(path)


def test_patched_pad(directory: Path) -> None:
    good = made(directory, "good")
    pad = Elf(good).sections[".hugealign.pad"]
    last = pad["sh_offset"] + pad["sh_size"] - 1
    path = patch(good, directory, (last, "B", 0x90))
    assert ids(path) == ["HA015"]
    assert f"{pad['sh_addr'] + pad['sh_size'] - 1:#x}" in report(path).findings[0].message


def test_fewer_windows_than_asked_for(directory: Path) -> None:
    assert "HA030" not in ids(made(directory, "good"), min_windows=2)
    assert "HA030" in ids(made(directory, "small"), min_windows=1)


def test_every_rule_is_here() -> None:
    """No rule without a file on which it fires."""
    named = " ".join(expected for *_, expected in (*MADE.values(), *TREATED.values()))
    text = Path(__file__).read_text(encoding="utf-8")
    for rule in RULES:
        assert rule in named or f'"{rule}"' in text, rule


def test_what_the_note_says_is_read(directory: Path) -> None:
    note = made(directory, "note")
    found = report(note)
    assert found.build_id == run("readelf", "-nW", note).stdout.split("Build ID: ")[1].split()[0]
    assert "hugealign" in run("readelf", "-nW", note).stdout


@pytest.mark.parametrize("little", [True, False])
def test_a_note_read_is_the_note_written(little: bool) -> None:
    from hugealign.elf.notes import _build_note

    note = BuildNote(PAGE, 5, 9, 3, padded=True, profile=b"id", functions=7)
    data = note.pack(little)
    assert len(data) % 4 == 0
    name_size, size, kind = struct.unpack_from("<III" if little else ">III", data)
    assert (name_size, kind) == (10, 1)
    found = _build_note(data[24 : 24 + size], little)
    assert found
    assert found.pack(little) == data
    assert _build_note(data[24 : 24 + size], not little) is None


@pytest.mark.parametrize("step", [2 * PAGE, 0])
def test_a_file_of_nothing_but_text_segments(step: int, tmp_path: Path) -> None:
    """As many as Linux reads, one after the other or all in one place."""
    count = 1170
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, count, 64, 0, 0)
    loads = [struct.pack("<IIQQQQQQ", 1, 5, i * step, i * step, 0, PAGE, PAGE, PAGE) for i in range(count)]
    path = tmp_path / "many"
    path.write_bytes(header + b"".join(loads))
    os.truncate(path, count * 2 * PAGE)
    found = report(path)
    assert len(found.findings) < 4 * count
    path.write_bytes(
        ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1171, 64, 0, 0) + bytes(65576)
    )
    assert "more than Linux loads" in report(path).reason
