"""Each diagnosis of a file for `verify` and `fix`: the file is made, its remedy taken, and the diagnosis is gone.

Where nothing can be done, nothing is recommended, and the file stays as it was.
"""

import io
import json
import os
import shutil
import struct
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import Diagnosis
from hugealign.elf.fixrecord import HEADERS_SECTION
from hugealign.elf.image import PT_DYNAMIC, Image, Segment, read_file
from hugealign.fixing import examine
from hugealign.fixing.fix import FixOptions, fix
from hugealign.verification.rules import LACK_WINDOWS
from tests.support import BIN, HUGEALIGN, diagnoses, need, run

M = 2 << 20
R, RX, RW = 4, 5, 6
P_FLAGS, P_OFFSET, P_VADDR, P_PADDR, P_FILESZ, P_MEMSZ, P_ALIGN = 4, 8, 16, 24, 32, 40, 48
E_MACHINE, E_SHOFF, E_FLAGS, E_SHNUM, E_SHSTRNDX = 18, 40, 48, 60, 62
VERIFY, FIX = ("verify", "--json"), ("fix", "--dry-run", "--json")
_SMALL_PAGES = "-fuse-ld=bfd -Wl,-z,max-page-size=0x1000"
_GCC = f"gcc {_SMALL_PAGES} main.o text.o"
#: A program at a fixed address whose names of functions fill pages, and a path for which patchelf moves them.
_EXPORTING, _LONG = f"{_GCC} many.o -no-pie -rdynamic -o made", f"/{'x' * 200}"

#: What happens in the directory of a test: its words are run, or it is called; the file in question is ``made``.
Make = Callable[[Path], object]
Step = str | Make


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with ``plain``, a program of 3 MiB of text that a fix gives windows, and its objects."""
    directory = tmp_path_factory.mktemp("files")
    stack = '\n.section .note.GNU-stack,"",@progbits\n'
    (directory / "text.s").write_text(f".text\n.globl code\ncode: .fill 3 << 20, 1, 0xc3{stack}")
    (directory / "two.s").write_text(f".text\n.globl code\ncode: .fill 2 << 20, 1, 0xc3{stack}")
    (directory / "data.s").write_text(f".section .rodata\n.fill 3 << 20, 1, 1{stack}")
    (directory / "textrel.s").write_text(f".text\n.quad main{stack}")
    (directory / "many.c").write_text("".join(f"int a_function_{i}(void) {{ return {i}; }}\n" for i in range(2000)))
    (directory / "main.c").write_text("int main(void) { return 0; }\n")
    for words in ("gcc -c -O1 -fPIC main.c text.s two.s data.s textrel.s many.c", f"{_GCC} -o plain"):
        run(*words.split(), cwd=directory, check=True)
    return directory


def changed(changes: Callable[[Image, bytes], Iterable[tuple[int, str, int]]]) -> Make:
    """Make ``plain`` with what *changes* returns for it: offsets, formats and values."""

    def make(at: Path) -> None:
        data = bytearray((at / "plain").read_bytes())
        for offset, form, value in changes(read_file(at / "plain"), bytes(data)):
            struct.pack_into(f"<{form}", data, offset, value)
        (at / "made").write_bytes(data)

    return make


def patched(*changes: tuple[int, str, int], load: int | None = None) -> Make:
    """Make ``plain`` with *changes*; their offsets are in the header of segment *load*, if any."""

    def placed(image: Image, _: bytes) -> Iterable[tuple[int, str, int]]:
        start = 0 if load is None else image.load_segments[load].header
        return [(start + offset, form, value) for offset, form, value in changes]

    return changed(placed)


def shifted(load: int, field: int, by: int) -> Make:
    """Make ``plain`` with a larger *field* in the header of segment *load*."""

    def larger(image: Image, data: bytes) -> Iterable[tuple[int, str, int]]:
        at = image.load_segments[load].header + field
        return [(at, "Q", struct.unpack_from("<Q", data, at)[0] + by)]

    return changed(larger)


def section(field: int, form: str, value: int) -> Make:
    """Make ``plain`` with *value* in the header of a section without text."""
    return changed(lambda image, _: [(_header(image, ".comment") + field, form, value)])


def _header(image: Image, name: str) -> int:
    return image.e_shoff + 64 * [item.name for item in image.sections].index(name)


#: The first section says how many there are, as in files of 65,280 sections.
wide_count = changed(lambda image, _: [(E_SHNUM, "H", 0), (image.e_shoff + 32, "Q", len(image.sections))])


def many_sections(at: Path) -> None:
    data = bytearray((at / "plain").read_bytes())
    image = read_file(at / "plain")
    tables = data[image.e_shoff : image.e_shoff + 64 * len(image.sections)]
    end = len(data) + -len(data) % 8
    struct.pack_into("<Q", data, E_SHOFF, end)
    struct.pack_into("<H", data, E_SHNUM, 0xFEFF)
    (at / "made").write_bytes(bytes(data).ljust(end, b"\0") + tables.ljust(64 * 0xFEFF, b"\0"))


def synthetic(loads: Sequence[tuple[int, int, int, int]], kind: int = 3, phoff: int = 64) -> Make:
    """Make a sparse file of segments: flags, address, size, offset; its program headers lie at *phoff*."""

    def make(at: Path) -> None:
        end = max(offset + size for _, _, size, offset in loads)
        names = b"\0.shstrtab\0"
        header = b"\x7fELF\x02\x01\x01" + bytes(9)
        header += struct.pack("<HHIQQQIHHHHHH", kind, 62, 1, 0, phoff, end + 16, 0, 64, 56, len(loads), 64, 2, 1)
        segments = b"".join(
            struct.pack("<IIQQQQQQ", 1, flags, offset, address, address, size, size, 4096)
            for flags, address, size, offset in loads
        )
        with (at / "made").open("wb") as file:
            file.write(header)
            file.seek(phoff)
            file.write(segments)
            file.seek(end)
            file.write(names.ljust(16, b"\0") + bytes(64))
            file.write(struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, end, len(names), 0, 0, 1, 0))

    return make


def archive(depth: int, member: str = "plain") -> Make:
    """Make a tar archive of *member* in a tar archive, *depth* of them."""

    def make(at: Path) -> None:
        name, data = member, (at / member).read_bytes() if member else b"no program"
        for _ in range(depth):
            whole = io.BytesIO()
            with tarfile.open(fileobj=whole, mode="w") as tar:
                info = tarfile.TarInfo(name or "text")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
            name, data = "inner.tar", whole.getvalue()
        (at / "made").write_bytes(data)

    return make


def unpack_once(at: Path) -> None:
    with tarfile.open(at / "made") as tar:
        inner = tar.extractfile("inner.tar")
        assert inner
        data = inner.read()
    (at / "made").write_bytes(data)


def zipped(field: int, value: int) -> Make:
    """Make a zip archive of ``plain`` with *value* in the *field* of its directory's entry."""

    def make(at: Path) -> None:
        with zipfile.ZipFile(at / "made", "w") as whole:
            whole.write(at / "plain", "plain")
        data = bytearray((at / "made").read_bytes())
        struct.pack_into("<H", data, data.rfind(b"PK\1\2") + field, value)
        (at / "made").write_bytes(data)

    return make


def fixed_and_patched(at: Path) -> None:
    run(HUGEALIGN, "fix", "plain", "-o", "made", cwd=at, check=True)
    data = bytearray((at / "made").read_bytes())
    struct.pack_into("<I", data, E_FLAGS, 1)
    (at / "made").write_bytes(data)


def empty_directory(at: Path) -> None:
    (at / "made").mkdir()
    shutil.copy(at / "plain", at / "made/program")


def packed(at: Path) -> None:
    """Mark ``plain`` as upx does; another program of that name takes the mark away."""
    patched((1000, "I", int.from_bytes(b"UPX!", "little")))(at)
    (at / "upx").write_text('#!/bin/sh -e\ntest "$1" = -d\ncp plain "$2"\n')
    (at / "upx").chmod(0o755)


def _dynamic(image: Image) -> Segment:
    return next(item for item in image.segments if item.p_type == PT_DYNAMIC)


def dynamic(value: int, old: int, new: int | None = None) -> Make:
    """Make ``plain`` with *value* for the tag *old* of its dynamic section, which becomes *new*."""

    def entry(image: Image, data: bytes) -> Iterable[tuple[int, str, int]]:
        at = _dynamic(image).p_offset
        while struct.unpack_from("<Q", data, at) != (old,):
            at += 16
        return [(at, "Q", old if new is None else new), (at + 8, "Q", value)]

    return changed(entry)


#: It is a pointer by its number, but it leads nowhere.
with_unknown_tag = dynamic(1 << 40, 0, 0x6FFFFE50)
without_dynamic = changed(lambda image, _: [(_dynamic(image).header, "I", 0)])
#: A relocation of an unknown type.
relocated = changed(
    lambda image, _: [(next(item for item in image.sections if item.name == ".rela.dyn").sh_offset + 8, "I", 9999)]
)
PROGRAM = "cp plain made"
SEPARATE, SHIFT = (*FIX, "--level=separate"), (*FIX, "--level=shift")
#: A program with a function of so many *parts*, which refer to the ELF header: a separation leaves that behind.
_REFERS = ".hidden __ehdr_start\\n.text\\n{}\\n.rept {}\\n{}\\n.endr\\n{}\\n"
_LINKED = f"gcc {_SMALL_PAGES} main.o f.s -o made"
_JUMP = "jmp __ehdr_start"
_JUMPS = _REFERS.format("", 1, _JUMP, "")
_JUMPS_OF_FUNCTION = _REFERS.format(".cfi_startproc", 1, _JUMP, ".cfi_endproc")
#: Instructions that only look like one with a reference, if decoded from their second byte.
_OTHERS = _REFERS.format(
    ".cfi_startproc", 140000, ".byte 0xc7, 0x84, 0x05\\n.long __ehdr_start - . - 4, 0", "ret\\n.cfi_endproc"
)
PAIRED = ((R, 0, 0x1000, 0), (RX, 0x2000, 4 * M, 0x1000), (R, 0x2000 + 4 * M, 0x1000, 0x1000 + 4 * M))


@dataclass(frozen=True, slots=True)
class Row:
    """How to ask, what makes the file, and the kind of the remedy.

    *act* does what the remedy has a person do; it is None where nothing is recommended, or where a command is.
    *again* are the words to ask with afterwards, if others.
    """

    ask: tuple[str, ...]
    make: Step
    kind: str | None = None
    act: Step | None = None
    again: tuple[str, ...] = ()
    needs: str = ""


ROWS = {
    "file.appended": Row(
        FIX, lambda at: (at / "made").write_bytes((at / "plain").read_bytes() + b"more"), "make-again"
    ),
    "file.archive": Row(VERIFY, "ar rc made main.o text.o", "advice", f"{_GCC} -o made"),
    "file.core": Row(VERIFY, patched((16, "H", 4))),
    "file.damaged": Row(VERIFY, patched((54, "H", 7))),
    "file.debug": Row(FIX, "objcopy --only-keep-debug plain made", "fix-program"),
    "file.directory": Row(VERIFY, empty_directory, "recurse", again=(*VERIFY, "-r")),
    "file.empty": Row(VERIFY, archive(1, "")),
    "file.members-encrypted": Row(VERIFY, zipped(8, 1), "advice", PROGRAM),
    "file.no-program": Row(VERIFY, patched((16, "H", 9))),
    "file.no-segments": Row(VERIFY, patched(*((64 + 56 * i, "I", 0) for i in range(8)))),
    "file.not-elf": Row(VERIFY, lambda at: (at / "made").write_text("#!/bin/sh\n")),
    "file.object": Row(VERIFY, "cp main.o made", "link", f"{_GCC} -o made"),
    "file.special": Row(VERIFY, lambda at: os.mkfifo(at / "made")),
    "file.thin-archive": Row(VERIFY, "ar rcT made main.o text.o", "advice", f"{_GCC} -o made"),
    "file.too-deep": Row(VERIFY, archive(4), "advice", unpack_once),
    "file.packed": Row(FIX, packed, "run"),
    "file.truncated": Row(FIX, section(32, "Q", 1 << 24)),
    "file.unknown-form": Row(VERIFY, zipped(10, 9), "advice", PROGRAM),
    "file.unreadable": Row(VERIFY, lambda _: None),
    "fix.address-tables": Row(SEPARATE, dynamic(1 << 40, 7), "relink", again=SHIFT),
    "fix.changed-since": Row((*FIX, "--undo"), fixed_and_patched),
    "fix.check": Row(SEPARATE, with_unknown_tag, "relink", again=SHIFT),
    "fix.checked": Row(FIX, f"{PROGRAM} && sha256sum made >made.sha256", "relink", f"rm made.sha256 && {_GCC} -o made"),
    "fix.crosses": Row(SEPARATE, f"printf '{_JUMPS_OF_FUNCTION}' >f.s && {_LINKED} -s", "relink", again=SHIFT),
    "fix.debug-inside": Row(
        SEPARATE, "clang-19 -g -fstack-size-section main.c text.o -o made", "relink", again=SHIFT, needs="clang-19"
    ),
    "fix.fixed-address": Row(SEPARATE, f"{_GCC} -no-pie -o made", "relink", again=SHIFT),
    "fix.grows": Row(
        (*FIX, "--page-size=32M"), synthetic([(RX, k << 26, 1 << 20, k << 26) for k in range(10)]), "relink"
    ),
    "fix.header-tables": Row(FIX, wide_count, "relink"),
    "fix.headers-move": Row(FIX, synthetic(PAIRED, phoff=0x1000 + 4 * M), "relink"),
    "fix.image-base": Row(FIX, synthetic([(RX, 0x1000, 4 * M, 0)]), "relink"),
    "fix.many-addresses": Row(SEPARATE, f"printf '{_OTHERS}' >f.s && {_LINKED} -s", "relink", again=SHIFT),
    "fix.many-sections": Row(FIX, many_sections, "relink"),
    "fix.many-segments": Row(
        FIX, synthetic([(R, i << 12, 4096, i << 12) for i in range(70)] + [(RX, M, M, M)]), "relink"
    ),
    "fix.may-cross": Row(SEPARATE, f"printf '{_JUMPS}' >f.s && {_LINKED} -s", "relink", again=SHIFT),
    "fix.no-dynamic": Row(SEPARATE, without_dynamic, "relink", again=SHIFT),
    "fix.more-executable": Row(FIX, f"{_GCC} data.o -no-pie -o made", "run"),
    "fix.no-record": Row((*FIX, "--undo"), PROGRAM),
    "fix.no-room": Row(FIX, synthetic([(RX, 0x10000, 4 * M, 0)], kind=2), "relink"),
    "fix.no-sections": Row(FIX, patched((E_SHOFF, "Q", 0), (E_SHNUM, "I", 0)), "relink-sections"),
    "fix.no-window": Row(
        (*FIX, "--level=align"), f"gcc {_SMALL_PAGES} main.o two.o -o made", "level", again=(*FIX, "--level=shift")
    ),
    "fix.not-separated": Row(SEPARATE, patched((E_MACHINE, "H", 243)), "relink", again=SHIFT),
    "fix.other-processor": Row(FIX, patched((E_MACHINE, "H", 8))),
    "fix.physical-addresses": Row(FIX, shifted(1, P_PADDR, 1)),
    "fix.prelinked": Row(FIX, f"objcopy --add-section {HEADERS_SECTION}=main.o plain made", "relink"),
    "fix.section-names": Row(FIX, section(0, "I", 1 << 20), "relink"),
    "fix.section-torn": Row(
        FIX,
        f"{_EXPORTING} && patchelf --set-rpath {_LONG} made",
        "patch-again",
        f"{_EXPORTING} && patchelf --page-size {M} --set-rpath {_LONG} made",
        needs="patchelf",
    ),
    "fix.segment-alignment": Row(FIX, patched((P_ALIGN, "Q", 0x3000), load=0), "relink"),
    "fix.segment-outside-file": Row(FIX, patched((P_FILESZ, "Q", 1 << 40), load=3), "relink"),
    "fix.segment-outside-memory": Row(FIX, shifted(3, P_VADDR, 1 << 60), "relink"),
    "fix.segment-shifted": Row(FIX, shifted(3, P_VADDR, 8), "relink"),
    "fix.segments-order": Row(FIX, shifted(2, P_OFFSET, -0x2000), "relink"),
    "fix.segments-overlap": Row(FIX, shifted(2, P_VADDR, -0x2000), "relink"),
    "fix.several-texts": Row(SEPARATE, patched((P_FLAGS, "I", 5), load=2), "relink", again=SHIFT),
    "fix.unmoved-symbol": Row(SEPARATE, f"printf '{_JUMPS}' >f.s && {_LINKED}", "relink", again=SHIFT),
    "fix.unknown-relocations": Row(SEPARATE, relocated, "relink", again=SHIFT),
    "fix.writable-first": Row(SEPARATE, patched((P_FLAGS, "I", 6), load=0), "relink", again=SHIFT),
    "text.execute-only": Row(FIX, patched((P_FLAGS, "I", 1), load=1), "relink"),
    "text.none": Row(FIX, patched((P_FLAGS, "I", R), load=1)),
    "text.not-in-file": Row(FIX, shifted(1, P_MEMSZ, 8), "relink"),
    "text.relocations": Row(FIX, f"{_GCC} textrel.s -Wl,-z,notext -o made", "compile-pic", f"{_GCC} -o made"),
    "text.writable": Row(FIX, patched((P_FLAGS, "I", 7), load=1), "relink"),
}


def do(step: Step, at: Path) -> None:
    if callable(step):
        step(at)
    else:
        subprocess.run(["sh", "-ec", step], cwd=at, check=True, capture_output=True)


def asked(words: tuple[str, ...], at: Path) -> dict[str, Any]:
    """Return the diagnoses in the answer, by code; small text also counts."""
    done = run(HUGEALIGN, *words, "made", cwd=at, HUGEALIGN_MIN_TEXT="1")
    assert "Traceback" not in done.stderr
    return {item["code"]: item for item in diagnoses(json.loads(done.stdout))}


@pytest.mark.parametrize("code", ROWS)
def test_what_is_recommended_helps(built: Path, tmp_path: Path, code: str) -> None:
    row = ROWS[code]
    if row.needs:
        need(row.needs)
    for name in ("plain", "main.c", "main.o", "text.o", "two.o", "data.o", "many.o", "textrel.s"):
        (tmp_path / name).symlink_to(built / name)
    do(row.make, tmp_path)
    made = tmp_path / "made"
    before = made.read_bytes() if made.is_file() and made.stat().st_size < 1 << 27 else b""
    result = asked(row.ask, tmp_path)
    assert code in result
    remedy = result[code]["remedy"]
    assert (remedy and remedy["kind"]) == row.kind
    if before:
        assert made.read_bytes() == before
    argv = remedy["argv"] if remedy and not remedy["needs"] else []
    if argv:
        run(*argv, cwd=tmp_path, check=True, PATH=f"{BIN}:{tmp_path}:{os.environ['PATH']}")
        if remedy["after"] is not None:
            (done,) = json.loads(run(HUGEALIGN, *FIX, made).stdout)["files"]
            assert done["plan"]["windows_before"] == remedy["after"]
    if row.act:
        if made.is_file():
            made.unlink() if row.act is not unpack_once else None
        do(row.act, tmp_path)
    if argv or row.act or row.again:
        assert code not in asked(row.again or row.ask, tmp_path)


def test_a_program_that_was_laid_out_has_none(built: Path, tmp_path: Path) -> None:
    """What helps where the remedy is another link."""
    run(HUGEALIGN, "gcc", "-fuse-ld=bfd", built / "main.o", built / "text.o", "-o", tmp_path / "made", check=True)
    assert asked(VERIFY, tmp_path) == asked(FIX, tmp_path) == {}
    assert run(tmp_path / "made").returncode == 0


def test_what_go_has_linked_is_linked_in_its_own_way(built: Path, tmp_path: Path) -> None:
    """Go starts a compiler for the link only with an option, so CC alone would change nothing."""
    made = tmp_path / "made"
    run("objcopy", "--add-section", f".go.buildinfo={built / 'main.c'}", built / "plain", made, check=True)
    kinds = {item["remedy"]["kind"] for item in asked(VERIFY, tmp_path).values()}
    assert "fix-or-relink-go" in kinds
    assert "fix-or-relink" not in kinds


def test_another_link_would_split_the_text_again(built: Path, tmp_path: Path) -> None:
    """As of -mcmodel=large, whose code LLD 22 keeps in a segment of its own, if it was laid out once."""
    apart = ("-fuse-ld=bfd", "-Wl,--section-start=.fini=0x9000000")
    words = (*apart, built / "main.o", built / "text.o", "-o", tmp_path / "made")
    run("gcc", *words, check=True)
    assert asked(VERIFY, tmp_path)["HA001"]["remedy"]["kind"] == "fix-or-relink"
    run("objcopy", "--add-section", f".hugealign.pad={built / 'main.c'}", tmp_path / "made", check=True)
    result = asked(VERIFY, tmp_path)
    assert "HA007" in result
    assert {item["remedy"]["kind"] for item in result.values() if item["code"] in LACK_WINDOWS} == {"fix"}


def test_a_protection_that_would_be_lost(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No layout of a fix loses one as far as we know, so one is said to be lost."""
    monkeypatch.setattr(examine, "lost", lambda *_: "RELRO")
    with pytest.raises(RefusalError) as refusal:
        fix(str(built / "plain"), FixOptions())
    assert refusal.value.diagnosis == Diagnosis("fix.weaker", "", {"guard": "RELRO"})
