"""Every rule on files that real tools made: each names the diagnoses of the whole file, so that it fires exactly there.

Where no tool makes the fault, a file that a linker made is patched; those are in PATCHED.  ADVISED has the file that
comes of doing what each rule advises.
"""

import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from hugealign.diagnosis import catalogue, render
from hugealign.elf.image import read_file
from hugealign.elf.notes import BuildNote
from hugealign.verification.checking import check_fd
from hugealign.verification.result import FileReport
from hugealign.verification.rules import Policy
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
    "static PIE for pages of 2 MiB": ("{h} gcc -static-pie -nostdlib start.o -e main", "HA012"),
    "old library in a program": ("{h} gcc main.o text.o old.o", ""),
    "lld by hugealign": (f"{{h}} gcc {_LLD14} -no-pie main.o text.o", ""),
    "static, fixed": ("{h} gcc -static -no-pie main.o text.o", ""),
    "aligned to 2 MiB": (
        f"gcc {_LLD14} -static -no-pie -nostdlib -Wl,-e,main main.o -Wl,-z,max-page-size=0x200000",
        "",
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
    "fixed afterwards": ("aligned to 4 KiB", f"{HUGEALIGN} fix --level=shift {{file}} -o {{out}}", "HA009 HA028"),
    "debug of GNU": ("good", "objcopy --only-keep-debug {file} {out}", ""),
    "debug of LLVM": ("good", f"{LLVM['lld19']}/llvm-objcopy --only-keep-debug {{file}} {{out}}", "HA020"),
}


#: name: segment (of those that are loaded) of the file "good", field, value -> the rules.
P_OFFSET, P_VADDR, P_FILESZ, P_MEMSZ, P_ALIGN = 8, 16, 32, 40, 48
PATCHED = {
    "odd alignment": (0, P_ALIGN, 3 * M, "HA021"),
    "larger alignment": (0, P_ALIGN, 4 * M, ""),
    "out of order": (2, P_VADDR, 0x1000, "HA023"),
    "one over another": (2, P_VADDR, -0x1000, "HA005 HA023"),  # below the end of the text
    "text cut short": (1, P_FILESZ, 2 * M, "HA006"),
    "no such memory": (-1, P_MEMSZ, 1 << 47, "HA029"),
    "no memory": (-1, P_MEMSZ, (1 << 64) - 0x1000, "HA029"),
    "less in memory": (-1, P_MEMSZ, 0x10, "HA029"),
    "beyond all addresses": (-1, P_VADDR, (1 << 47) - 0x1000, "HA013 HA029"),
    "off a page": (-1, P_OFFSET, 0x11, "HA029"),
    "beyond the file": (-1, P_OFFSET, 1 << 40, "HA029"),
    "for MIPS": (None, 16, 3 | 8 << 16 | 1 << 32, "HA031"),  # e_type, e_machine, e_version
}

#: rule: a file that breaks it -> the file that comes of doing what it advises; empty if it advises nothing.
ADVISED = {
    "HA001": ("aligned to 4 KiB", "good"),
    "HA002": ("lld", "lld by hugealign"),
    "HA003": ("lld", "lld by hugealign"),
    "HA004": ("no pad", "good"),
    "HA005": ("one over another", "good"),
    "HA006": ("text cut short", "good"),
    "HA007": ("two texts", "small"),
    "HA008": ("two texts", "small"),
    "HA009": ("data among the text", "good"),
    "HA010": ("text relocations", "good"),
    "HA011": ("for an old glibc", "old library in a program"),
    "HA012": ("static PIE", "static, fixed"),
    "HA013": ("relro too long", "relro right"),
    "HA014": ("relro too short", "relro right"),
    "HA015": ("pad of NOPs", "good"),
    "HA017": ("more windows promised", "good"),
    "HA018": ("hot outside", "good"),
    "HA019": ("pad removed", "note"),
    "HA020": ("debug of LLVM", "debug of GNU"),
    "HA021": ("odd alignment", "good"),
    "HA022": ("far too aligned", "aligned to 2 MiB"),
    "HA023": ("out of order", "good"),
    "HA024": ("base off the grid", "base on the grid"),
    "HA025": ("executable stack", "good"),
    "HA026": ("lld aligned", "good"),
    "HA027": ("static PIE for pages of 4 KiB", "static PIE for pages of 2 MiB"),
    "HA028": ("fixed afterwards", ""),
    "HA029": ("no such memory", "good"),
    "HA030": ("small", "good"),
    "HA031": ("for MIPS", ""),
}
ASKED: dict[str, dict[str, object]] = {"HA030": {"min_windows": 2}}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("examine")
    for name, text in _SOURCES.items():
        stack = '.section .note.GNU-stack,"",@progbits\n' if name.endswith(".s") else ""
        (path / name).write_text(text + stack)
    run("gcc", "-c", "-O1", "-fPIC", *[n for n in _SOURCES if not n.endswith(".ld")], cwd=path, check=True)
    return path


def made(directory: Path, name: str) -> Path:
    """The file *name* of MADE, TREATED or PATCHED, made when first requested."""
    path = directory / name
    if path.exists():
        return path
    if name in PATCHED:
        which, field, value, _ = PATCHED[name]
        good = made(directory, "good")
        if which is None:
            return patch(good, path, (field, "Q", value))
        loads = read_file(good).load_segments
        value += loads[1].p_vaddr + loads[1].p_memsz if value < 0 else 0
        return patch(good, path, (loads[which].header + field, "Q", value))
    if name in TREATED:
        source, command, _ = TREATED[name]
        need(command.split()[0])
        words = [w.format(file=made(directory, source), out=path) for w in command.split()]
    else:
        words = [*MADE[name][0].replace("{h}", str(HUGEALIGN)).split(), "-o", str(path)]
        need_compiler(*words[words[0] == str(HUGEALIGN) :])
    run(*words, cwd=directory, check=True)
    return path


def patch(path: Path, target: Path, *changes: tuple[int, str, int]) -> Path:
    data = bytearray(path.read_bytes())
    for offset, form, value in changes:
        struct.pack_into("<" + form, data, offset, value)
    target.write_bytes(data)
    target.chmod(0o755)
    return target


def report(path: Path, **asked: object) -> FileReport:
    fd = os.open(path, os.O_RDONLY)
    try:
        return check_fd(fd, path.name, Policy(**asked))  # type: ignore[arg-type]
    finally:
        os.close(fd)


def codes(path: Path, **asked: object) -> list[str]:
    result = report(path, **asked)
    assert not result.problem
    assert all(map(render.sentence, result.diagnoses))  # no fact is missing
    return sorted({diagnosis.code for diagnosis in result.diagnoses})


FILES = MADE | TREATED | PATCHED


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, directory: Path) -> None:
    assert codes(made(directory, name)) == str(FILES[name][-1]).split()


@pytest.mark.parametrize("code", catalogue.rules())
def test_what_a_rule_advises_helps(code: str, directory: Path) -> None:
    asked = ASKED.get(code, {})
    broken, fixed = ADVISED[code]
    assert code in codes(made(directory, broken), **asked)
    if fixed:
        assert code not in codes(made(directory, fixed), **asked)
    else:
        assert not catalogue.row(code).fix


#: The rules whose files `fix` gives windows: the command that is named does, and leaves no such diagnosis.
EDITED = ("HA001", "HA002", "HA003", "HA004", "HA027")


def reported(path: Path, code: str) -> tuple[dict[str, Any] | None, int]:
    """Return what `verify` says by *code*, None if nothing, and the number of windows."""
    (result,) = json.loads(run(HUGEALIGN, "verify", "--json", path).stdout)["files"]
    return next((item for item in result["diagnoses"] if item["code"] == code), None), result["coverage"]["windows"]


@pytest.mark.parametrize("code", catalogue.rules())
def test_the_command_that_a_rule_names_helps(code: str, directory: Path, tmp_path: Path) -> None:
    path = tmp_path / "made"
    shutil.copy(made(directory, ADVISED[code][0]), path)
    result, before = reported(path, code)
    remedy = result and result["remedy"]
    argv = remedy["argv"] if remedy else []
    assert bool(argv) == (code in EDITED), remedy
    if argv:
        assert remedy
        run(HUGEALIGN, *argv[1:], check=True)
        after = reported(path, code)
        assert (remedy["before"], remedy["after"]) == (before, after[1])
        assert after[0] is None


def test_a_debug_file_is_no_fault(directory: Path) -> None:
    result = report(made(directory, "debug of GNU"))
    assert (result.verdict, result.debug, result.coverage.text if result.coverage else None) == ("ok", True, 0)


@pytest.mark.parametrize("name", [name for name, row in PATCHED.items() if "HA029" in row[-1]])
def test_what_linux_does_not_start(name: str, directory: Path) -> None:
    """The program itself is the judge."""
    assert run(made(directory, "good")).returncode == 0
    assert run(made(directory, name)).returncode != 0


def test_patched_pad(directory: Path) -> None:
    good = made(directory, "good")
    pad = Elf(good).sections[".hugealign.pad"]
    last = pad["sh_offset"] + pad["sh_size"] - 1
    (result,) = report(patch(good, directory / "pad", (last, "B", 0x90))).diagnoses
    assert (result.code, result.facts["address"]) == ("HA015", pad["sh_addr"] + pad["sh_size"] - 1)


def test_what_the_note_says_is_read(directory: Path) -> None:
    note = made(directory, "note")
    result = report(note)
    assert result.build_id == run("readelf", "-nW", note).stdout.split("Build ID: ")[1].split()[0]
    assert "hugealign" in run("readelf", "-nW", note).stdout


@pytest.mark.parametrize("tail", [1, 1000, 4000])
@pytest.mark.parametrize("linker", ["-fuse-ld=bfd", _LLD14, f"-fuse-ld=lld -B{LLVM['lld19']}", "-fuse-ld=mold"])
def test_a_tail_that_the_link_does_not_pad(linker: str, tail: int, directory: Path, tmp_path: Path) -> None:
    """It is not said to have lost its pad; not even without that section, if the link has left its note."""
    need_compiler("gcc", *linker.split())
    (tmp_path / "order").write_text("# hugealign.order/1\nmain\n")

    def linked(fill: int, **settings: Any) -> Path:
        (tmp_path / "fill.s").write_text(f'.text\n.fill {fill}, 1, 0xc3\n.section .note.GNU-stack,"",@progbits\n')
        words = (HUGEALIGN, "gcc", *linker.split(), "fill.s", directory / "main.o", directory / "text.o", "-o", "out")
        run(*words, cwd=tmp_path, check=True, HUGEALIGN_PROFILE=str(tmp_path / "order"), **settings)
        return tmp_path / "out"

    def codes(path: Path) -> set[str]:
        return {diagnosis.code for diagnosis in report(path).diagnoses}

    image = Elf(linked(16))
    last = max(s["sh_addr"] + s["sh_size"] for n, s in image.sections.items() if s["sh_flags"] & 4 and "pad" not in n)
    fill = 16 + -last % PAGE + tail
    path = linked(fill)
    text = Elf(path).text[0]
    assert 0 < (text["p_vaddr"] + text["p_memsz"]) % PAGE <= 4096, "not the tail that is meant"
    assert "HA019" not in codes(path)
    bare = tmp_path / "bare"
    run("objcopy", "--remove-section=*hugealign.pad", "--wildcard", path, bare, check=True)
    assert "HA019" not in codes(bare)
    # With a smaller threshold the same tail gets a pad, which can be lost.
    if tail > 512:
        padded = linked(fill, HUGEALIGN_MIN_TEXT="512")
        run("objcopy", "--remove-section=*hugealign.pad", "--wildcard", padded, bare, check=True)
        assert "HA019" in codes(bare)


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
    result = report(path)
    assert len(result.diagnoses) < 4 * count
    path.write_bytes(
        ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1171, 64, 0, 0) + bytes(65576)
    )
    problem = report(path).problem
    assert problem
    assert problem.code == "file.damaged"
