"""Separation: the text moves away from what lies before it, in what real linkers made; programs do the same."""

import re
import shutil
import stat
import struct
from pathlib import Path

import pytest
from elftools.dwarf.callframe import FDE
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection, RelrRelocationSection
from elftools.elf.sections import SymbolTableSection

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.fixrecord import SEPARATE, Step
from hugealign.elf.frames import FrameTable
from hugealign.elf.image import read_image
from hugealign.elf.ranges import function_ranges
from hugealign.errors import MalformedElfError
from hugealign.fixing.fix import FIX, NOTHING, FixOptions, fix
from hugealign.fixing.separation import check
from tests.link import test_aarch64
from tests.link.bulk import bulk_object
from tests.packaged import elf_files
from tests.referee import unexplained
from tests.support import PAGE, PYTHON, SRC, Elf, Toolchain, environment, need_compiler, run

#: Linkers that put constants before the text, so that its head cannot be padded.
CONSTANTS_FIRST = ("lld14", "lld19", "mold")
#: Linkers that put data into the segment of the text.
DATA_BEHIND = ("gold",)


@pytest.fixture(autouse=True)
def all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small text also counts: the programs here are small."""
    monkeypatch.setenv("HUGEALIGN_MIN_TEXT", "0")


def separated(path: Path, output: Path | None = None) -> tuple[Path, Step]:
    """Separate *path*; hold the result against what pyelftools reads, and undo it."""
    output = output or path.with_name(f"{path.name}.separated")
    done = fix(str(path), FixOptions(SEPARATE, output=str(output)))
    assert done.plan
    assert done.plan.step
    assert (done.action, done.plan.executable, done.after) == (FIX, 0, output.stat().st_size)
    assert_stepped(path, output, done.plan.step)
    assert unexplained(path, output) == []
    assert undone(output).read_bytes() == path.read_bytes()
    return output, done.plan.step


def undone(path: Path) -> Path:
    """Return what undoing makes of the separated file at *path*."""
    back = path.with_name("undone")
    fix(str(path), FixOptions(undo=True, output=str(back)))
    return back


def refusal(path: Path) -> tuple[str, dict[str, int | str]]:
    """Return code and facts of what keeps *path* from being separated; nothing is written."""
    with pytest.raises(RefusalError) as caught:
        fix(str(path), FixOptions(SEPARATE, output=str(path.with_name("refused"))))
    assert not path.with_name("refused").exists()
    return caught.value.diagnosis.code, dict(caught.value.diagnosis.facts)


def code_of(path: Path) -> str:
    """Return why *path* is refused, empty if it is not."""
    try:
        fix(str(path), FixOptions(SEPARATE, output=str(path.with_name("made"))))
    except RefusalError as refused:
        return refused.diagnosis.code
    return ""


def assert_stepped(old: Path, new: Path, step: Step) -> None:
    """Every relocation, symbol, section and dynamic pointer of *new* is where *step* puts that of *old*."""
    with old.open("rb") as a_stream, new.open("rb") as b_stream:
        a, b = ELFFile(a_stream), ELFFile(b_stream)
        assert b["e_entry"] == step(a["e_entry"])
        relative = {"EM_X86_64": (8, 37), "EM_AARCH64": (1027, 1032)}[a["e_machine"]]
        for x, y in zip(a.iter_sections(), b.iter_sections(), strict=False):
            if x["sh_flags"] & 2:
                assert (x.name, y["sh_addr"], x["sh_size"]) == (y.name, step(x["sh_addr"]), y["sh_size"])
            if isinstance(x, DynamicSection):
                for one, other in zip(x.iter_tags(), y.iter_tags(), strict=True):
                    pointer = one.entry.d_tag in POINTERS
                    assert other.entry.d_val == (step(one.entry.d_val) if pointer else one.entry.d_val), one
            elif isinstance(x, RelocationSection):
                kept = not x["sh_flags"] & 2  # by --emit-relocs
                if kept and not a.get_section(x["sh_info"])["sh_flags"] & 2:
                    continue
                for one, other in zip(x.iter_relocations(), y.iter_relocations(), strict=True):
                    assert other["r_offset"] == step(one["r_offset"])
                    moved = one["r_info_type"] in relative and not kept
                    assert other["r_addend"] == (step(one["r_addend"]) if moved else one["r_addend"])
                    if moved and (was := word(a, one["r_offset"])) == one["r_addend"]:  # GNU ld also writes it there
                        assert word(b, other["r_offset"]) == step(was)
            elif x.name in (".got", ".got.plt") and x["sh_size"]:
                dynamic = a.get_section_by_name(".dynamic")["sh_addr"]
                if word(a, x["sh_addr"]) == dynamic:
                    assert word(b, y["sh_addr"]) == step(dynamic)
            elif isinstance(x, RelrRelocationSection):
                places = [one["r_offset"] for one in x.iter_relocations()]
                assert [one["r_offset"] for one in y.iter_relocations()] == [step(place) for place in places]
                for place in places:
                    assert word(b, step(place)) == step(word(a, place))
            elif isinstance(x, SymbolTableSection):
                for one, other in zip(x.iter_symbols(), y.iter_symbols(), strict=True):
                    still = one["st_shndx"] == "SHN_ABS" or one["st_info"]["type"] == "STT_TLS"
                    value = one["st_value"]
                    assert other["st_value"] == (value if still else step(value)), one.name


POINTERS = {
    *("DT_PLTGOT", "DT_HASH", "DT_GNU_HASH", "DT_STRTAB", "DT_SYMTAB", "DT_RELA", "DT_JMPREL", "DT_RELR", "DT_INIT"),
    *(
        "DT_FINI",
        "DT_INIT_ARRAY",
        "DT_PREINIT_ARRAY",
        "DT_FINI_ARRAY",
        "DT_VERSYM",
        "DT_VERNEED",
        "DT_VERDEF",
        "DT_TLSDESC_PLT",
    ),
    "DT_TLSDESC_GOT",
}


def word(elf: ELFFile, address: int) -> int:
    """Return the word at *address*, 0 if it is not in the file."""
    for offset in elf.address_offsets(address, 8):
        elf.stream.seek(offset)
        return int(struct.unpack("<Q", elf.stream.read(8))[0])
    return 0


def executable(path: Path) -> int:
    """How many bytes of sections that are not code are executable."""
    elf = Elf(path)
    return sum(
        s["sh_size"]
        for name, s in elf.sections.items()
        if s["sh_flags"] & 6 == 2
        for t in elf.text
        if t["p_vaddr"] <= s["sh_addr"] < t["p_vaddr"] + t["p_memsz"]
    )


def assert_whole(path: Path, linker: str, alignment: int = 4096) -> None:
    """The code of *path* is whole as far as its linker lets that be: it ends at the boundary of a window."""
    elf = Elf(path)
    (text,) = elf.text
    end = max(s["sh_addr"] + s["sh_size"] for s in elf.sections.values() if s["sh_flags"] & 4)
    assert -(-end // alignment) * alignment % PAGE == 0
    assert (text["p_vaddr"] - text["p_offset"]) % PAGE == 0
    assert text["p_align"] >= PAGE
    assert text["p_offset"] + text["p_filesz"] <= elf.size
    if linker not in CONSTANTS_FIRST:
        assert text["p_vaddr"] % PAGE == 0
    if linker not in DATA_BEHIND:
        assert executable(path) == 0
    if linker not in CONSTANTS_FIRST + DATA_BEHIND:
        assert elf.faults() == []


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_program(binding: str, toolchain: Toolchain, features: Path, bulk: Path, tmp_path: Path) -> None:
    path = tmp_path / "program"
    run(toolchain.cxx, *toolchain.flags, "-pie", features, bulk, f"-Wl,-z,{binding}", "-o", path, check=True)
    output, _ = separated(path)
    assert_whole(output, toolchain.linker)
    assert run(output).returncode == 0
    assert run(output, LD_BIND_NOW="1").returncode == 0
    assert run(output, GLIBC_TUNABLES="glibc.cpu.hwcaps=-AVX2").returncode == 0
    assert Elf(output).lacks(Elf(path)) == []


def test_library(toolchain: Toolchain, bulk: Path, tmp_path: Path) -> None:
    path = tmp_path / "libbulk.so"
    run(*toolchain.command("-shared", bulk, "-o", path), check=True)
    output, _ = separated(path)
    assert_whole(output, toolchain.linker)
    script = "import ctypes, os, sys; print(ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW).big_sum())"
    done = run(PYTHON, "-c", script, output, check=True)
    assert int(done.stdout) == 3000 * 2999 // 2
    # Linking against it is as before.
    (tmp_path / "main.c").write_text("unsigned big_sum(void); int main(void) { return big_sum() != 4498500; }")
    run(*toolchain.command(tmp_path / "main.c", output, "-o", tmp_path / "main"), check=True)
    assert run(tmp_path / "main").returncode == 0


def test_traps_behind_the_text(toolchains: dict[str, Toolchain], bulk: Path, main: Path, tmp_path: Path) -> None:
    """LLD fills the last page of code with traps, which no segment holds: undoing brings them back."""
    path = tmp_path / "program"
    run(*toolchains["gcc-lld19"].needed().command("-pie", main, bulk, "-Wl,-z,separate-code", "-o", path), check=True)
    (text,) = Elf(path).text
    assert path.read_bytes()[text["p_offset"] + text["p_filesz"]] == 0xCC
    output, _ = separated(path)
    assert run(output).returncode == 0


CALLS = """
#include <stdio.h>
#include <stdlib.h>
%s
int main(int argc, char **argv) { printf("%%ld\\n", (long)value(argc)); return 0; }
"""
_POINTER = "static int a[4]; int *p = a + 2; long value(int n) { return p - a + n; }"
_THREAD_LOCAL = "__thread long t = 40; static __thread long u; long value(int n) { u += n; return t + u; }"
_CHOSEN = (
    "static int one(void) { return 3; } static int (*choose(void))(void) { return one; } "
    'int chosen(void) __attribute__((ifunc("choose"))); int (*held)(void) = chosen; '
    "long value(int n) { return chosen() + held() + n; }"
)
#: Programs that print a number: what they hold addresses in, their text, and the options of gcc.
KINDS = {
    "switch": (
        (
            "long value(int n) { switch (n) { case 1: return 7; case 2: return rand(); case 3: return 9; "
            "case 4: return abs(n); case 5: return 11; default: return 13; } }"
        ),
        ("-O2",),
    ),
    "pointers": (
        (
            "static int a[4] = {1, 2, 3, 4}; int *p[] = {a, a + 4, &a[2]}; int (*f)(const char *) = puts; "
            "long value(int n) { return (p[1] - p[n]) + (f == puts); }"
        ),
        (),
    ),
    "relr": (
        (
            "static int a[900]; int *p[900] = {[0 ... 899] = a + 7}; "
            "long value(int n) { return p[n] - a + (p[899] == p[0]); }"
        ),
        ("-Wl,-z,pack-relative-relocs",),
    ),
    "unaligned": (
        (
            "static int a[4] = {1, 2, 3, 4}; struct __attribute__((packed)) { char c; int *p; } s = {1, a + 3}; "
            "long value(int n) { return *s.p + n; }"
        ),
        (),
    ),
    "ifunc": (_CHOSEN, ()),
    "ifunc now": (_CHOSEN, ("-Wl,-z,now",)),
    "constructors": (
        (
            "static long v; __attribute__((constructor)) static void c(void) { v += 5; } "
            '__attribute__((destructor)) static void d(void) { puts("end"); } '
            "long value(int n) { return v + n; }"
        ),
        (),
    ),
    "tls": (_THREAD_LOCAL, ("-ftls-model=initial-exec",)),
    "tls descriptors": (_THREAD_LOCAL, ("-fPIC", "-mtls-dialect=gnu2", "-Wl,--no-relax")),
    "tls dynamic": (_THREAD_LOCAL, ("-fPIC", "-ftls-model=global-dynamic", "-Wl,--no-relax")),
    "tls of many pages": (
        "__thread char a[1 << 16] = {1}; __thread long t = 4; long value(int n) { return t + ++a[n << 15]; }",
        ("-ftls-model=initial-exec",),
    ),
    "header by a pointer": (
        (
            "extern const char __ehdr_start[]; const char *const volatile p = __ehdr_start; "
            "long value(int n) { return p[n]; }"
        ),
        ("-s",),  # with its symbol it is refused
    ),
    "kept relocations": (_POINTER, ("-Wl,--emit-relocs",)),
    "profiled": ("long value(int n) { return n + 1; }", ("-fprofile-generate",)),
    "gnu hash only": ("long value(int n) { return n + 1; }", ("-rdynamic", "-Wl,--hash-style=gnu")),
    "both hashes": ("long value(int n) { return n + 1; }", ("-rdynamic", "-Wl,--hash-style=both")),
    "headers with text": (_POINTER, ("-Wl,-z,noseparate-code",)),
    "sanitized": (_POINTER, ("-fsanitize=undefined", "-O1")),
    "large pages": (_POINTER, ("-Wl,-z,max-page-size=0x10000",)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_addresses(kind: str, tmp_path: Path) -> None:
    need_compiler("gcc")
    text, options = KINDS[kind]
    path = compiled(tmp_path, CALLS % text, *options)
    output, _ = separated(path)
    for now in ("", "1"):
        plain = run(path, GCOV_PREFIX=str(tmp_path), LD_BIND_NOW=now)
        assert plain.returncode == 0
        done = run(output, GCOV_PREFIX=str(tmp_path), LD_BIND_NOW=now)
        assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert executable(output) == 0 or kind == "headers with text"
    assert not Elf(output).loads[0]["p_flags"] & 1


#: What reaches across the break, and is found.
CROSSINGS = {
    "header by a distance": (
        (
            'extern const char __ehdr_start[] __attribute__((visibility("hidden"))); '
            "long value(int n) { return __ehdr_start[n]; }"
        ),
        (),
    ),
    "header in data": (
        (
            '__asm__(".section .rodata\\n.balign 4\\nd: .long __ehdr_start - .\\n.text"); '
            'extern const int d __attribute__((visibility("hidden"))); '
            "long value(int n) { return ((const char *)&d + d)[n]; }"
        ),
        (),
    ),
    "large model": (
        (
            'extern const char __ehdr_start[] __attribute__((visibility("hidden"))); '
            "long value(int n) { return __ehdr_start[n]; }"
        ),
        ("-mcmodel=large", "-fPIC"),
    ),
    "compared": (
        (
            'extern const char __ehdr_start[] __attribute__((visibility("hidden"))); '
            '__asm__("f: cmpb $69, __ehdr_start+1(%rip)\\nsete %al\\nret"); int f(void); '
            "long value(int n) { return f() + n; }"
        ),
        (),
    ),
    "called": (
        ('__asm__(".globl g\\ng: jne __ehdr_start\\nret"); void g(void); long value(int n) { return (long)g != n; }'),
        (),
    ),
    "monitored": ("long value(int n) { return n + 1; }", ("-pg",)),
}


#: ... where nothing proves that it is a reference.
UNPROVEN = ("header in data", "large model", "compared", "called")


@pytest.mark.parametrize("kind", CROSSINGS)
def test_crossing(kind: str, tmp_path: Path) -> None:
    """The symbol is enough; without symbols, the distance is found."""
    need_compiler("gcc")
    text, options = CROSSINGS[kind]
    code, facts = refusal(compiled(tmp_path, CALLS % text, *options))
    assert (code, set(facts)) == ("fix.unmoved-symbol", {"symbol", "address"})
    code, facts = refusal(compiled(tmp_path, CALLS % text, *options, "-s"))
    assert (code, set(facts)) == ("fix.may-cross" if kind in UNPROVEN else "fix.crosses", {"place", "address"})


#: What is refused for its headers, and why.
REFUSED: dict[str, tuple[tuple[str, ...], str, dict[str, int | str] | None]] = {
    "static": (("-static",), "fix.fixed-address", {}),
    "static-pie": (("-static-pie",), "fix.unmoved-symbol", None),
    "small": ((), "text.small", None),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options, code, facts = REFUSED[kind]
    if kind == "small":
        monkeypatch.setenv("HUGEALIGN_MIN_TEXT", "256K")
    path = compiled(tmp_path, CALLS % KINDS["pointers"][0], *options)
    result, seen = refusal(path)
    assert result == code
    assert facts is None or seen == facts


@pytest.mark.parametrize(
    ("tag", "changed", "code"),
    [
        (20, (20, 17), "fix.unknown-relocations"),  # DT_PLTREL: relocations of another kind
        (7, (21, 0), "fix.address-tables"),  # DT_RELA, DT_JMPREL, DT_RELR: sizes alone are left
        (23, (21, 0), "fix.address-tables"),
        (36, (21, 0), "fix.address-tables"),
    ],
)
def test_damaged_dynamic_section(tag: int, changed: tuple[int, int], code: str, tmp_path: Path) -> None:
    """Entries that the loader needs have become others; commands/test_file_diagnoses.py has more."""
    path = compiled(tmp_path, CALLS % KINDS["pointers"][0], "-Wl,-z,lazy,-z,pack-relative-relocs")
    data = bytearray(path.read_bytes())
    section = Elf(path).sections[".dynamic"]
    places = range(section["sh_offset"], section["sh_offset"] + section["sh_size"], 16)
    (at,) = (at for at in places if struct.unpack_from("<Q", data, at) == (tag,))
    struct.pack_into("<QQ", data, at, *changed)
    path.write_bytes(data)
    assert refusal(path)[0] == code


@pytest.mark.parametrize(
    ("instruction", "code"),
    [
        # EVEX with an operation that is not known.
        (".byte 0x62, 0xf5, 0x7d, 0x28, 0x39, 0x2d; .long __ehdr_start - . - 4", "fix.may-cross"),
        # With REX2, from the map of opcodes of two bytes.
        (".byte 0xd5, 0x90, 0x6f, 0x05; .long __ehdr_start - . - 4", "fix.may-cross"),
    ],
)
def test_instructions_that_a_decoder_does_not_know(instruction: str, code: str, tmp_path: Path) -> None:
    function = f".hidden __ehdr_start; .text; .rept 64; nop; .endr; {instruction}; .rept 64; nop; .endr"
    path = compiled(tmp_path, CALLS % KINDS["pointers"][0] + f'asm("{function}");', "-s")
    assert code_of(path) == code


def compiled(place: Path, source: str, *options: str) -> Path:
    """Compile a program without debug information, as a position-independent one unless *options* say otherwise."""
    (place / "program.c").write_text(source)
    path = place / "program"
    run("gcc", "-pie", "-fPIE", "-w", place / "program.c", *options, "-o", path, cwd=place, check=True)
    return path


def test_versions_and_interposition(tmp_path: Path) -> None:
    """Symbols with versions are found, by the right version, and can be interposed."""
    (tmp_path / "lib.c").write_text(
        "int old(void) { return 1; }\nint new(void) { return 2; }\n"
        '__asm__(".symver old, f@V1");\n__asm__(".symver new, f@@V2");\nint g(void) { return new() + 10; }\n'
    )
    (tmp_path / "map").write_text("V1 { global: f; local: *; };\nV2 { global: f; g; } V1;\n")
    (tmp_path / "main.c").write_text(
        "#include <dlfcn.h>\n#include <stdio.h>\nint f(void); int g(void);\n"
        'int main(void) { int (*o)(void) = (int (*)(void))dlvsym(RTLD_DEFAULT, "f", "V1");\n'
        'printf("%d %d %d\\n", f(), g(), o ? o() : -1); }\n'
    )
    path = tmp_path / "libv.so"
    run("gcc", "-shared", "-fPIC", tmp_path / "lib.c", f"-Wl,--version-script={tmp_path}/map", "-o", path, check=True)
    run("gcc", "-D_GNU_SOURCE", tmp_path / "main.c", path, "-o", tmp_path / "main", check=True)
    plain = run(tmp_path / "main", check=True).stdout
    (tmp_path / "moved").mkdir()
    separated(path, tmp_path / "moved" / "libv.so")
    (tmp_path / "moved" / "libv.so").replace(path)
    assert run(tmp_path / "main", check=True).stdout == plain == "2 12 1\n"


LANGUAGES = {
    "rust": (
        "m.rs",
        (
            "fn main() { let v: Vec<u32> = (1..9).collect(); "
            'let r = std::panic::catch_unwind(|| { if v.len() == 8 { panic!("x") } }); '
            'println!("{} {}", v.iter().sum::<u32>(), r.is_err()); }\n'
        ),
        ("rustc", "-O", "-g", "-Clink-arg=-fuse-ld=bfd"),
    ),
    "fortran": (
        "m.f90",
        "program m\n  integer :: i\n  print *, (i * i, i = 1, 5)\nend program\n",
        ("gfortran", "-g", "-pie"),
    ),
    "go": (
        "m.go",
        (
            'package main\nimport "fmt"\nfunc main() { defer func() { fmt.Println(recover()) }(); '
            'var m map[string]int; m["a"] = 1 }\n'
        ),
        ("go", "build", "-buildmode=pie", "-ldflags=-linkmode=external"),
    ),
}


def in_language(language: str, directory: Path) -> Path:
    """A program of LANGUAGES, built in *directory*; skips where its compiler is missing."""
    name, source, command = LANGUAGES[language]
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    (directory / name).write_text(source)
    path = directory / "program"
    cache = str(directory / "cache")
    run(*command, "-o", path, directory / name, cwd=directory, check=True, GOFLAGS="", GOCACHE=cache)
    return path


@pytest.mark.parametrize("options", [(), ("-Wl,--no-eh-frame-hdr",), ("-s",), ("-s", "-Wl,--no-eh-frame-hdr")])
def test_unwinding_tables(options: tuple[str, ...], tmp_path: Path) -> None:
    """Functions are where unwinding entries and symbols say; exceptions land in them."""
    path = tmp_path / "program"
    run("g++", "-O1", "-fPIC", SRC / "features.cc", bulk_object(tmp_path), *options, "-o", path, check=True)
    with path.open("rb") as stream:
        file = ELFFile(stream)
        entries = [e for e in file.get_dwarf_info().EH_CFI_entries() if isinstance(e, FDE)]
        frames = {e["initial_location"]: e["initial_location"] + e["address_range"] for e in entries}
        tables = [s for s in file.iter_sections() if isinstance(s, SymbolTableSection)]
        kinds = ("STT_FUNC", "STT_LOOS")  # the second is IFUNC
        symbols = [
            s for table in tables for s in table.iter_symbols() if s["st_info"]["type"] in kinds and s["st_size"]
        ]
    with path.open("rb") as stream:
        image = read_image(stream.fileno())
        table = FrameTable(image, stream.fileno())
        assert table.starts(0, 1 << 62) == sorted(frames)
        ranges = function_ranges(image, stream.fileno())
        found = [table.around(start) for start in frames]
        assert {frame.start: frame.end for frame in found if frame} == frames
        landings = {frame.start: table.landing_pads(frame) for frame in found if frame}
    assert ranges.keys() == {s["st_value"] for s in symbols if s["st_value"]}
    assert all(start < pad < frames[start] for start, pads in landings.items() for pad in pads)
    listed = run("objdump", "-d", "--no-show-raw-insn", path, check=True).stdout
    begins = {int(line.split(":")[0], 16) for line in listed.splitlines() if ":\t" in line}
    landed = {pad for pads in landings.values() for pad in pads}
    assert landed
    assert landed <= begins


@pytest.mark.parametrize(
    "language", [pytest.param(name, marks=pytest.mark.matrix if name == "go" else ()) for name in LANGUAGES]
)
def test_language(language: str, tmp_path: Path) -> None:
    path = in_language(language, tmp_path)
    assert ".debug_info" in Elf(path).sections
    output, _ = separated(path)
    plain, done = run(path), run(output)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert plain.stdout


@pytest.mark.skipif(
    not shutil.which(test_aarch64.GCC) or not shutil.which("qemu-aarch64"), reason="no aarch64 compiler or qemu"
)
@pytest.mark.parametrize("name", [name for name in test_aarch64.TOOLCHAINS if "mold" not in name])
def test_aarch64_program(name: str, tmp_path: Path) -> None:
    words = test_aarch64.TOOLCHAINS[name]
    need_compiler(*words)
    objects = tmp_path / "features.o", bulk_object(tmp_path, compiler=test_aarch64.GCC)
    run("aarch64-linux-gnu-g++", "-O1", "-fPIC", "-c", SRC / "features.cc", "-o", objects[0], check=True)
    path = tmp_path / "program"
    run(*test_aarch64.cxx(words), "-pie", *objects, "-o", path, check=True)
    output, step = separated(path)
    assert step.delta % 0x10000 == 0
    # GNU ld's default for this processor has data behind the code in one segment.
    assert_whole(output, {"bfd": "gold"}.get(linker := name.partition("-")[2], linker), 0x10000)
    assert run(*test_aarch64.QEMU, output).returncode == 0


@pytest.mark.skipif(
    not shutil.which(test_aarch64.GCC) or not shutil.which("qemu-aarch64"), reason="no aarch64 compiler or qemu"
)
@pytest.mark.parametrize(("kind", "options"), [("tls descriptors", ()), ("relr", ("-Wl,-z,pack-relative-relocs",))])
def test_aarch64_addresses(kind: str, options: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(CALLS % KINDS[kind][0])
    path = tmp_path / "program"
    run(test_aarch64.GCC, "-fPIC", "-pie", tmp_path / "program.c", *options, "-o", path, check=True)
    output, _ = separated(path)
    plain, done = run(*test_aarch64.QEMU, path), run(*test_aarch64.QEMU, output)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert plain.returncode == 0


@pytest.mark.skipif(not shutil.which(test_aarch64.GCC), reason="no aarch64 compiler")
@pytest.mark.parametrize("text", ["adrp x0, __ehdr_start", "adr x0, __ehdr_start", "ldr w0, __ehdr_start"])
def test_aarch64_crossing(text: str, tmp_path: Path) -> None:
    source = (
        f'__asm__(".hidden __ehdr_start\\n.globl f\\nf: {text}\\nret"); int f(void); int main(void) {{ return f(); }}'
    )
    (tmp_path / "program.c").write_text(source)
    path = tmp_path / "program"
    for option, code in (("-fPIE", "fix.unmoved-symbol"), ("-s", "fix.crosses")):
        run(test_aarch64.GCC, "-fPIE", "-pie", option, tmp_path / "program.c", "-o", path, check=True)
        assert refusal(path)[0] == code


PROBE = """
__asm__(".globl _.stapsdt.base\\n.hidden _.stapsdt.base\\n.section .stapsdt.base,\\"a\\"\\n_.stapsdt.base: .byte 0\\n"
        ".section .note.stapsdt,\\"\\",@note\\n.balign 4\\n.long 8, 3f-2f, 3\\n.asciz \\"stapsdt\\"\\n"
        "2: .quad probed, _.stapsdt.base, %s\\n.asciz \\"a\\"\\n.asciz \\"b\\"\\n.asciz \\"\\"\\n3: .balign 4\\n"
        ".data\\ncounter: .quad 0\\n.text");
int main(void) { __asm__ volatile("probed: nop"); return 0; }
"""


@pytest.mark.parametrize("counter", ["0", "counter"])
def test_probes(counter: str, tmp_path: Path) -> None:
    """The addresses of a static probe, its base and its counter move; a counter that is not there stays 0."""
    path = compiled(tmp_path, PROBE % counter)
    output, step = separated(path)
    old, new = (
        [int(item, 16) for item in places(run("readelf", "-n", file, check=True).stdout)] for file in (path, output)
    )
    assert new == [step(item) for item in old]
    assert len(old) == 3
    assert bool(old[2]) == (counter != "0")


def places(notes: str) -> list[str]:
    """Return the addresses that readelf prints for a probe."""
    line = next(line for line in notes.splitlines() if "Location:" in line)
    return [part.split()[0].rstrip(",") for part in line.split(": ")[1:]]


def test_mode_holes_and_times(tmp_path: Path) -> None:
    path = tmp_path / "git"
    shutil.copy(PYTHON, path)
    path.chmod(0o751)
    if Elf(path).type == "ET_EXEC":
        path.write_bytes(Path("/usr/bin/perl").read_bytes())
    output, _ = separated(path)
    assert stat.S_IMODE(output.stat().st_mode) == 0o751
    assert output.stat().st_blocks * 512 < path.stat().st_size + PAGE + (64 << 10)


def test_build_id_is_another(tmp_path: Path) -> None:
    """Whoever keeps symbols by build ID must not take those of the original; the same input gives the same."""
    path = compiled(tmp_path, CALLS % KINDS["pointers"][0], "-Wl,--build-id=sha1")
    output, _ = separated(path)
    repeated, _ = separated(path, tmp_path / "again")
    result = [
        run("readelf", "-n", item, check=True).stdout.partition("Build ID: ")[2][:40]
        for item in (path, output, repeated)
    ]
    assert len(result[0]) == 40
    assert result[0] != result[1] == result[2]


def test_stripped_afterwards(bulk: Path, main: Path, tmp_path: Path) -> None:
    """strip keeps the windows; then the record does not fit any more, and undoing refuses."""
    path = tmp_path / "program"
    run("gcc", "-pie", main, bulk, "-o", path, check=True)
    output, _ = separated(path)
    run("strip", output, check=True)
    assert Elf(output).faults() == []
    assert run(output).returncode == 0
    with pytest.raises(RefusalError) as caught:
        undone(output)
    assert caught.value.diagnosis.code == "fix.changed-since"


@pytest.mark.parametrize("part", ["rela", "symbol", "dynamic", "code", "data", "header"])
def test_check_sees_a_difference(part: str, tmp_path: Path) -> None:
    """One wrong word in the written file is seen by the check, wherever it is."""
    path = compiled(tmp_path, CALLS % KINDS["pointers"][0], "-rdynamic")
    output, step = separated(path)
    sections = Elf(output).sections
    offset = {
        "rela": sections[".rela.dyn"]["sh_offset"] + 16,
        "symbol": sections[".symtab"]["sh_offset"] + 24 * (sections[".symtab"]["sh_size"] // 24 - 1) + 8,
        "dynamic": sections[".dynamic"]["sh_offset"] + 16 * 3 + 8,
        "code": sections[".text"]["sh_offset"] + 5,
        "data": sections[".rodata"]["sh_offset"],
        "header": 24,
    }[part]
    data = bytearray(output.read_bytes())
    data[offset] ^= 0x10
    wrong = tmp_path / "wrong"
    wrong.write_bytes(data)
    for file, right in ((output, True), (wrong, False)):
        with path.open("rb") as old, file.open("rb") as new:
            if right:
                check.check(old.fileno(), new.fileno(), step)
            else:
                with pytest.raises(RefusalError) as caught:
                    check.check(old.fileno(), new.fileno(), step)
                assert caught.value.diagnosis.code == "fix.check"


def test_damaged_record(tmp_path: Path) -> None:
    """No byte of the record can be changed so that undoing goes wrong otherwise than by an error."""
    path = compiled(tmp_path, CALLS % KINDS["pointers"][0])
    output, _ = separated(path)
    data = output.read_bytes()
    sections = Elf(output).sections
    for name in (".hugealign.fix", ".hugealign.words", ".hugealign.headers"):
        section = sections[name]
        for at in range(section["sh_offset"], section["sh_offset"] + section["sh_size"], 23):
            wrong = bytearray(data)
            wrong[at] ^= 0x41
            (tmp_path / "wrong").write_bytes(wrong)
            try:
                undone(tmp_path / "wrong")
            except (RefusalError, MalformedElfError):
                continue


LOADED = """
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(int n, char **v) { if (!dlopen(v[1], RTLD_NOW)) { puts(dlerror()); return 1; } puts("loaded"); fflush(stdout);
_exit(0); }
"""


@pytest.mark.matrix
@pytest.mark.timeout(7200)
def test_packages(tmp_path: Path) -> None:
    """Every file of known packages that can be separated loads as before, with all its relocations bound."""
    loader = compiled(tmp_path, LOADED)
    counts: dict[str, int] = {}
    for path in native_files():
        output = tmp_path / path.name
        try:
            done = fix(str(path), FixOptions(SEPARATE, output=str(output)))
        except RefusalError as refused:
            counts[refused.diagnosis.code] = counts.get(refused.diagnosis.code, 0) + 1
            continue
        if done.action == NOTHING:
            continue
        interpreted = Elf(path).has("PT_INTERP") and ".so" not in path.name
        variables = environment(LD_LIBRARY_PATH=str(path.parent))
        if interpreted:
            variables |= {"LD_TRACE_LOADED_OBJECTS": "1", "LD_WARN": "1", "LD_BIND_NOW": "1"}
        output.chmod(0o755)
        copy = tmp_path / f"{path.name}.copy"
        shutil.copyfile(path, copy)  # a setgid program would lose its environment
        copy.chmod(0o755)
        seen = [run(*([] if interpreted else [loader]), file, env=variables) for file in (copy, output)]
        reported = [(item.returncode, masked(item.stdout + item.stderr).replace(".copy", "")) for item in seen]
        assert reported[0] == reported[1], path
        assert undone(output).read_bytes() == path.read_bytes(), path
        output.unlink()
        copy.unlink()
        counts["separated"] = counts.get("separated", 0) + 1
    print(counts)
    left = sum(count for code, count in counts.items() if code not in ("separated", "fix.fixed-address"))
    assert counts["separated"] > 10 * left


def native_files() -> list[Path]:
    """The programs and libraries for this processor in known packages, of at most 60 MiB."""
    result = []
    for path in elf_files():
        with path.open("rb") as stream:
            head = stream.read(20)
        linked = head[16:18] in (b"\2\0", b"\3\0") and path.suffix != ".debug"
        if linked and head[18:20] == b"\x3e\0" and path.stat().st_size <= 60 << 20:
            result.append(path)
    return result


def masked(text: str) -> str:
    """Return *text* without addresses and process numbers."""
    return re.sub("0x[0-9a-f]+|==[0-9]+==", "NUMBER", text)


@pytest.mark.parametrize("trap", ["ud1 1(%eax), %eax", "ud2"])
def test_what_nothing_reaches_or_reads_crosses_nothing(trap: str, tmp_path: Path) -> None:
    """Behind Clang's traps, instructions that no label leads to; an operand looks like a distance to the header."""
    (tmp_path / "f.c").write_text(
        "".join(f"int f{i}(int x) {{ return x * {i}; }}\n" for i in range(300)) + "int main(void) { return f1(0); }\n"
    )
    (tmp_path / "t.s").write_text(
        f".text\n.globl checked\n.type checked,@function\nchecked: .cfi_startproc\n{trap}\ncmp $OPERAND, %eax\n"
        'place: ret\n.cfi_endproc\n.size checked,.-checked\n.section .note.GNU-stack,"",@progbits\n'
    )
    path = tmp_path / "program"
    operand = -70000
    for _ in range(2):
        words = (f"-Wa,--defsym,OPERAND={operand}", tmp_path / "f.c", tmp_path / "t.s", "-o", path)
        run("gcc", "-O1", "-falign-functions=2048", *words, check=True)
        place = run("nm", path, check=True).stdout.split(" t place")[0].split()[-1]
        operand = 0x100 - int(place, 16)
    output, _ = separated(path)
    assert run(output).returncode == 0
