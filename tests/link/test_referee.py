"""The referee of separated files: it explains all of what fix makes, and complains about any other byte."""

import random
import shutil
import struct
import sys
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.link import test_aarch64
from tests.link.bulk import bulk_object
from tests.referee import unexplained
from tests.support import HUGEALIGN, ROOT, TOOLCHAINS, Elf, run

#: Has what a program can have: a probe, a packed relocation if the linker makes any, pointers, data, a note.
PARTS = r"""
#include <stdio.h>
static int numbers[64] = {1, 2, 3};
int *pointers[64] = {[0 ... 63] = numbers + 5};
const char constants[] = "constants that nothing changes";
__thread int counted = 3;
static int one(void) { return 1; }
static int (*choose(void))(void) { return one; }
int chosen(void) __attribute__((ifunc("choose")));
unsigned big_sum(void);
__asm__(".pushsection .stapsdt.base,\"a\"\n.hidden _.stapsdt.base\n"
        ".globl _.stapsdt.base\n_.stapsdt.base: .byte 0\n.popsection\n"
        ".pushsection .note.stapsdt,\"\",%note\n.balign 4\n.long 8, 3f-2f, 3\n.asciz \"stapsdt\"\n"
        "2: .8byte big_sum, _.stapsdt.base, 0\n.asciz \"a\"\n.asciz \"b\"\n.asciz \"\"\n"
        "3: .balign 4\n.popsection");
int main(int n, char **v) {
    return printf("%p\n", (void *)pointers[n]) < 0 || chosen() + counted != 4 || big_sum() != 4498500; }
"""
X86 = [chain.name for chain in TOOLCHAINS]
AARCH64 = [f"aarch64-{name}" for name in test_aarch64.TOOLCHAINS if "mold" not in name]


@pytest.fixture(scope="module")
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A program and its separated copy, by the toolchain that *request* names."""
    name: str = request.param
    place = tmp_path_factory.mktemp("files")
    if name in X86:
        chain = next(chain for chain in TOOLCHAINS if chain.name == name).needed()
        words, bulk = chain.command(), bulk_object(place)
    else:
        words, bulk = (
            list(test_aarch64.TOOLCHAINS[name.removeprefix("aarch64-")]),
            bulk_object(place, compiler=test_aarch64.GCC),
        )
        if not shutil.which(words[0]):
            pytest.skip(f"{words[0]} is not installed")
    (place / "parts.c").write_text(PARTS)
    path = place / "program"
    options = ["-fPIE", "-pie", "-g", "-rdynamic", "-Wl,--build-id=sha1", "-Wl,-z,lazy"]
    if not any(linker in name for linker in ("gold", "lld14", "mold")):
        options.append("-Wl,-z,pack-relative-relocs")
    run(*words, *options, place / "parts.c", bulk, "-o", path, check=True)
    run(HUGEALIGN, "fix", "--level=separate", path, "-o", place / "fixed", check=True, HUGEALIGN_MIN_TEXT="0")
    return path, place / "fixed"


class Patient:
    """A separated file to be damaged.  What is requested and missing raises LookupError."""

    def __init__(self, path: Path) -> None:
        self.elf = Elf(path)
        self.data = self.elf.data
        self.machine = int.from_bytes(self.data[18:20], "little")
        self.text = self.elf.text[0]

    def word(self, at: int) -> int:
        return int(struct.unpack_from("<Q", self.data, at)[0])

    def byte(self, section: str, at: int) -> int:
        """Return the offset of a byte of a section, counted from the section's end if *at* is negative."""
        header = self.elf.sections[section]
        if not -header["sh_size"] <= at < header["sh_size"]:
            raise LookupError(section)
        return int(header["sh_offset"] + at + (header["sh_size"] if at < 0 else 0))

    def entry(self, section: str, size: int, at: int, accepted: Container[int]) -> int:
        """Return the offset of the first entry of a table whose half word *at* is *accepted*."""
        start = self.byte(section, 0)
        for place in range(start, start + self.elf.sections[section]["sh_size"], size):
            if self.word(place + at) & 0xFFFFFFFF in accepted:
                return place
        raise LookupError(section)

    def program_header(self, p_type: str, flags: Container[int] = range(8)) -> int:
        for i, segment in enumerate(self.elf.segments):
            if segment["p_type"] == p_type and segment["p_flags"] in flags:
                return 64 + 56 * i
        raise LookupError(p_type)

    def section_header(self, section: str) -> int:
        return self.word(40) + 64 * list(self.elf.sections).index(section)


RELATIVE, SLOT, ANY = {8, 1027}, {7, 1026}, range(1 << 32)
#: A byte that is wrong, and where it is.
DAMAGES: dict[str, Callable[[Patient], int]] = {
    "code": lambda p: p.byte(".text", 100),
    "last byte of code": lambda p: p.byte(".text", -1),
    "constant": lambda p: p.byte(".rodata", 3),
    "data": lambda p: p.byte(".data", -1),
    "pointer in data": lambda p: p.byte(".init_array", 0),
    "unwinding": lambda p: p.byte(".eh_frame", 20),
    "interpreter": lambda p: p.byte(".interp", 3),
    "property": lambda p: p.byte(".note.gnu.property", 12),
    "ABI note": lambda p: p.byte(".note.ABI-tag", -4),
    "hash table": lambda p: p.byte(".gnu.hash", 2),
    "name of a dynamic symbol": lambda p: p.byte(".dynstr", 4),
    "place of a relocation": lambda p: p.entry(".rela.dyn", 24, 8, ANY),
    "type of a relocation": lambda p: p.entry(".rela.dyn", 24, 8, ANY) + 8,
    "addend": lambda p: p.entry(".rela.dyn", 24, 8, RELATIVE) + 16,
    "place of a slot": lambda p: p.entry(".rela.plt", 24, 8, SLOT),
    "lazy word": lambda p: p.byte(".got.plt", -8),
    "first word of the offset table": lambda p: p.byte(".got.plt", 0),
    "packed relocation": lambda p: p.byte(".relr.dyn", 0),
    "packed relocation, bits": lambda p: p.byte(".relr.dyn", -8),
    "value of a dynamic symbol": lambda p: p.byte(".dynsym", -16),
    "size of a dynamic symbol": lambda p: p.byte(".dynsym", -8),
    "value of a symbol": lambda p: p.byte(".symtab", -16),
    "name of a symbol": lambda p: p.byte(".strtab", 5),
    "dynamic pointer": lambda p: p.entry(".dynamic", 16, 0, {5}) + 8,
    "dynamic size": lambda p: p.entry(".dynamic", 16, 0, {10}) + 8,
    "dynamic flag": lambda p: p.entry(".dynamic", 16, 0, {0x6FFFFFFB}) + 8,
    "probe": lambda p: p.byte(".note.stapsdt", 20),
    "name of a probe": lambda p: p.byte(".note.stapsdt", -4),
    "debug information": lambda p: p.byte(".debug_info", 30),
    "string of debug information": lambda p: p.byte(".debug_str", 1),
    "comment": lambda p: p.byte(".comment", 1),
    "trap": lambda p: p.byte(".hugealign.pad", 0),
    "last trap": lambda p: p.byte(".hugealign.pad", -1),
    "entry point": lambda _: 24,
    "flags of the file": lambda _: 48,
    "rights of code": lambda p: p.program_header("PT_LOAD", {5}) + 4,
    "rights of the front": lambda p: p.program_header("PT_LOAD", {4}) + 4,
    "rights of data": lambda p: p.program_header("PT_LOAD", {6}) + 4,
    "alignment of the code": lambda p: p.program_header("PT_LOAD", {5}) + 50,
    "address of RELRO": lambda p: p.program_header("PT_GNU_RELRO") + 16,
    "size of RELRO": lambda p: p.program_header("PT_GNU_RELRO") + 40,
    "rights of the stack": lambda p: p.program_header("PT_GNU_STACK") + 4,
    "size in memory": lambda p: p.program_header("PT_LOAD", {6}) + 40,
    "place in the file": lambda p: p.program_header("PT_LOAD", {6}) + 9,
    "address of a section": lambda p: p.section_header(".dynamic") + 16,
    "flags of a section": lambda p: p.section_header(".dynamic") + 8,
    "flags of the traps' section": lambda p: p.section_header(".hugealign.pad") + 8,
}


#: The bit that changes, if it is not the lowest: gold's front was executable before, and may be that still.
BITS = {"rights of the front": 2}


@contextmanager
def damaged(path: Path, at: int, bit: int = 1) -> Iterator[None]:
    """Change one bit of a byte for a while."""
    with path.open("r+b") as stream:
        stream.seek(at)
        byte = stream.read(1)
        stream.seek(at)
        stream.write(bytes([byte[0] ^ bit]))
        stream.flush()
        yield
        stream.seek(at)
        stream.write(byte)


@pytest.mark.parametrize("files", [*X86, *AARCH64], indirect=True)
def test_every_damage_is_seen(files: tuple[Path, Path]) -> None:
    assert unexplained(*files) == []
    patient = Patient(files[1])
    unseen, done = [], 0
    for name, place in DAMAGES.items():
        with suppress(LookupError), damaged(files[1], place(patient), BITS.get(name, 1)):
            done += 1
            if not unexplained(*files):
                unseen.append(name)
    assert unseen == []
    assert done >= len(DAMAGES) - 8
    assert unexplained(*files) == []


@pytest.mark.matrix
@pytest.mark.parametrize("files", [*X86, *AARCH64], indirect=True)
def test_no_byte_is_left_out(files: tuple[Path, Path]) -> None:
    """Bytes anywhere in memory, in symbols and strings: none can change unseen but those of the build ID."""
    patient, chance = Patient(files[1]), random.Random(1)
    kept = [s for name, s in patient.elf.sections.items() if s["sh_type"] not in ("SHT_NOBITS", "SHT_NULL")]
    kept = [s for s in kept if s["sh_size"] and (s["sh_flags"] & 2 or s["sh_type"] in ("SHT_SYMTAB", "SHT_STRTAB"))]
    unseen = []
    for section in (s for s in kept if s is not patient.elf.sections[".note.gnu.build-id"]):
        for _ in range(8):
            at = section["sh_offset"] + chance.randrange(section["sh_size"])
            if section is patient.elf.sections[".shstrtab"] and at >= section["sh_offset"] + 64:
                continue  # behind these are the names of the fix's own sections
            with damaged(files[1], at):
                if not unexplained(*files):
                    unseen.append(f"{at:#x}")
    assert unseen == []


@pytest.mark.parametrize("files", ["gcc-bfd"], indirect=True)
def test_command(files: tuple[Path, Path]) -> None:
    command = (sys.executable, "-m", "tests.referee", *files)
    assert (run(*command, cwd=ROOT).returncode, run(*command, cwd=ROOT).stdout) == (0, "")
    with damaged(files[1], Patient(files[1]).byte(".dynsym", -16)):
        done = run(*command, cwd=ROOT)
    assert done.returncode == 1
    assert done.stdout.startswith("symbol ")
    assert done.stdout.count("\n") == 1


def test_other_file(tmp_path: Path) -> None:
    """A file that was not separated, or is not an ELF file of the kind, is not judged, which does not accept it."""
    path = tmp_path / "program"
    (tmp_path / "main.c").write_text("int main(void) { return 0; }")
    run("gcc", tmp_path / "main.c", "-o", path, check=True)
    assert unexplained(path, path)
    run("gcc", "-no-pie", tmp_path / "main.c", "-o", path, check=True)
    assert unexplained(path, path)


#: Files of Debian 12, and whether each is refused.
LISTED = Path(__file__).with_name("separable.txt").read_text().splitlines()
INSTALLED = {name: refused for name, _, refused in (line.partition(" ") for line in LISTED if line[0] != "#")}


@pytest.mark.matrix
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", INSTALLED)
def test_installed(name: str, tmp_path: Path) -> None:
    """What fix makes of the files of Debian's own packages differs from them in nothing unexplained."""
    path = Path("/", name)
    if not path.exists():
        pytest.skip(f"{path} is not installed")
    output = tmp_path / "fixed"
    done = run(HUGEALIGN, "fix", "--level=separate", path, "-o", output, HUGEALIGN_MIN_TEXT="0")
    assert done.returncode == bool(INSTALLED[name]), done.stderr
    if not INSTALLED[name]:
        assert unexplained(path, output) == []
