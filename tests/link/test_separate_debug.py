"""Debug information of a separated program: each form of it, in the file or apart, is right for all who read it."""

import itertools
import lzma
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from elftools.dwarf.locationlists import LocationParser
from elftools.elf.elffile import ELFFile

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.fixrecord import Step
from hugealign.fixing.separation import debugfile
from tests.commands import bounded
from tests.link.test_separate import LANGUAGES, all_sizes, code_of, in_language, refusal, separated
from tests.support import HUGEALIGN, Elf, need, need_compiler, run

__all__ = ["all_sizes"]  # a fixture

DWARFDUMP = "llvm-dwarfdump-19"
DEBUG = ("-O1", "-g", "-fPIC", "-pie")
#: Compilers and their forms of debug information.
FORMS = {
    "gcc 2": ("g++", "-gdwarf-2"),
    "gcc 5": ("g++", "-gdwarf-5"),
    "gcc 4": ("g++", "-gdwarf-4"),
    "gcc 3": ("g++", "-gdwarf-3", "-gstrict-dwarf"),
    "gcc types": ("g++", "-gdwarf-4", "-fdebug-types-section"),
    "gcc macros": ("g++", "-g3"),
    "gcc lto": ("g++", "-flto"),
    "gcc compressed": ("g++", "-gdwarf-5", "-gz"),
    "gcc sections": ("g++", "-ffunction-sections", "-Wl,--gc-sections", "-Wl,-z,noseparate-code"),
    "gcc frames": ("g++", "-fno-asynchronous-unwind-tables", "-fno-exceptions"),
    "clang 5": ("clang++-19", "-gdwarf-5"),
    "clang 4": ("clang++-19", "-gdwarf-4"),
    "clang bases": (
        *("clang++-19", "-gdwarf-4", "-ffunction-sections"),
        *("-mllvm", "-use-dwarf-ranges-base-address-specifier=1"),
    ),
    "clang aranges": ("clang++-19", "-gdwarf-5", "-gdwarf-aranges"),
}
TRACED = """
#include <cstdio>
struct Counted { int n; static int made; Counted(int n) : n(n) { made++; } ~Counted() { made--; } };
int Counted::made; thread_local int seen; static int table[9];
__attribute__((cold, noinline)) static int rare(int n) { std::puts("rare"); return n; }
template <typename T> static T twice(T v) {
    T sum = 0;
    for (int i = 0; i < 2; i++) { sum += v; table[i] = sum; }
    return sum;
}
int main(int argc, char **) {
    int total = 0;
    for (int i = 0; i < 4; i++) { Counted one(i); total += twice(one.n) + (i == 9 ? rare(i) : 0); seen++; }
    if (argc > 5) return rare(argc);
    std::printf("%d %d %d\\n", total, seen, table[1]);
    return 0;
}
"""


@pytest.mark.parametrize("form", FORMS)
def test_debug_information(form: str, tmp_path: Path) -> None:
    """Every address that readers see in debug information is the one of the same thing, in its new place."""
    command = FORMS[form]
    need_compiler(*command)
    (tmp_path / "traced.cc").write_text(TRACED)
    path = tmp_path / "program"
    run(*command[:1], *DEBUG, *command[1:], tmp_path / "traced.cc", "-o", path, cwd=tmp_path, check=True)
    output, step = separated(path)
    assert run(output, check=True).stdout == run(path, check=True).stdout
    old, new = debug_addresses(path), debug_addresses(output)
    assert new == [(kind, step(address), rest) for kind, address, rest in old]
    assert {kind for kind, _, _ in old} >= {"entry", "line"}
    functions = [f"{s[0]:#x}" for s in function_symbols(path)]
    moved = [f"{step(s[0]):#x}" for s in function_symbols(path)]
    named = 0
    for tool in ("addr2line", "eu-addr2line"):  # the first does not read the newest forms
        if shutil.which(tool):
            before = run(tool, "-fie", path, *functions).stdout
            assert run(tool, "-fie", output, *moved).stdout == before
            named += "traced.cc:" in before
    assert named


def function_symbols(path: Path) -> list[tuple[int, str]]:
    with path.open("rb") as stream:
        table = ELFFile(stream).get_section_by_name(".symtab")
        return [
            (s["st_value"], s.name)
            for s in table.iter_symbols()
            if s["st_info"]["type"] == "STT_FUNC" and s["st_value"]
        ]


def debug_addresses(path: Path) -> list[tuple[str, int, object]]:
    """All addresses in the debug information of *path*, as pyelftools reads it: what each is, and what is beside it."""
    result: list[tuple[str, int, object]] = []
    with path.open("rb") as stream:
        information = ELFFile(stream).get_dwarf_info()
        ranges, locations = information.range_lists(), LocationParser(information.location_lists())
        for unit in information.iter_CUs():
            base = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
            for entry in unit.iter_DIEs():
                listed = entry.attributes.get("DW_AT_ranges")
                if listed and listed.form == "DW_FORM_sec_offset":
                    at = base.value if base and base.form == "DW_FORM_addr" else 0
                    for part in ranges.get_range_list_at_offset(listed.value, unit):
                        if hasattr(part, "base_address"):
                            at = part.base_address
                        else:
                            begin = part.begin_offset + (0 if part.is_absolute else at)
                            result.append(("range", begin, part.end_offset - part.begin_offset))
                for name, value in entry.attributes.items():
                    if value.form.startswith("DW_FORM_addrx"):
                        result.append(("table", information.get_addr(unit, value.raw_value), name))
                    if locations.attribute_has_location(value, unit["version"]) and value.form == "DW_FORM_sec_offset":
                        at = base.value if base else 0
                        for part in locations.parse_from_attribute(value, unit["version"], entry):
                            if hasattr(part, "base_address"):
                                at = part.base_address
                            elif hasattr(part, "begin_offset"):
                                begin = part.begin_offset + (0 if part.is_absolute else at)
                                result.append(("place", begin, part.end_offset - part.begin_offset))
                    if value.form == "DW_FORM_addr":
                        result.append(("entry", value.value, name))
                    elif value.form == "DW_FORM_exprloc" and value.value[:1] == [3]:
                        result.append(
                            ("location", int.from_bytes(bytes(value.value[1:9]), "little"), tuple(value.value[9:]))
                        )
            program = information.line_program_for_CU(unit)
            result += [
                ("line", e.state.address, e.state.line) for e in (program.get_entries() if program else ()) if e.state
            ]
        tables = information.get_aranges()
        result += [("arange", e.begin_addr, e.length) for e in (tables.entries if tables else ())]
        frames = information.CFI_entries() if information.has_CFI() else ()
        result += [("frame", e["initial_location"], 0) for e in frames if "initial_location" in e.header]
    return result


#: Forms that pyelftools does not read all of: compilers and options, and what is done with the program afterwards.
OTHER_FORMS = {
    "gcc 64": (("g++", "-gdwarf64"), ()),
    "gcc split 5": (("g++", "-gdwarf-5", "-gsplit-dwarf"), ()),
    "gcc split 4": (("g++", "-gdwarf-4", "-gsplit-dwarf"), ()),
    "gcc split names": (("g++", "-gdwarf-4", "-gsplit-dwarf", "-ggnu-pubnames"), ()),
    "clang split 5": (("clang++-19", "-gdwarf-5", "-gsplit-dwarf", "-ffunction-sections"), ()),
    "clang split 4": (("clang++-19", "-gdwarf-4", "-gsplit-dwarf", "-fdebug-types-section"), ()),
    "gcc package": (("g++", "-gdwarf-4", "-gsplit-dwarf"), ("dwp", "-e", "program", "-o", "package")),
    "clang names": (("clang++-19", "-gdwarf-5", "-gpubnames"), ()),
    "gdb index": (("g++", "-gdwarf-4", "-ggnu-pubnames", "-fuse-ld=gold", "-Wl,--gdb-index"), ()),
    "zlib of gnu": (("g++",), ("objcopy", "--compress-debug-sections=zlib-gnu", "program")),
    "zstd": (("g++",), ("llvm-objcopy-19", "--compress-debug-sections=zstd", "program")),
    "dwz": (("g++",), ("dwz", "program")),
    "dwz alternate": (("g++",), ("dwz", "-m", "common.debug", "program", "twin")),
}
#: What gdb has to show: breakpoints, frames, variables on the stack and in memory, scopes with their lists.
QUESTIONS = (
    *("break twice<int>", "run", "bt", "info locals", "info scope main", "finish"),
    *("print Counted::made", "print table", "info line rare", "info symbol rare", "info source"),
)


def report(program: Path) -> dict[str, str]:
    """What debuggers and tools say of *program*, without addresses and its name."""
    words = [word for item in QUESTIONS for word in ("-ex", item)]
    names = [f"{value:#x}" for value, _ in function_symbols(program)]
    answers = {
        "gdb": run("gdb", "-q", "-nx", "-batch", *words, program, cwd=program.parent).stdout,
        "eu-addr2line": run("eu-addr2line", "-fie", program, *names, cwd=program.parent).stdout,
        "llvm-symbolizer-19": run("llvm-symbolizer-19", f"--obj={program}", *names, cwd=program.parent).stdout,
        "readelf": run("readelf", "-w", program, cwd=program.parent).stderr,
    }
    masked = {tool: re.sub(r"0x[0-9a-f]+|process \d+", "X", text) for tool, text in answers.items()}
    return {tool: re.sub(r"\bprogram(\.separated)?\b", "NAME", text) for tool, text in masked.items()}


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_debug_information_for_its_readers(form: str, tmp_path: Path) -> None:
    """Readers say the same of the separated program; what is apart (.dwo, .dwp, an alternate) stays as it is."""
    command, after = OTHER_FORMS[form]
    need("gdb", "eu-addr2line", "llvm-symbolizer-19", *after[:1])
    need_compiler(*command)
    (tmp_path / "traced.cc").write_text(TRACED)
    path = tmp_path / "program"
    for name in ("twin", "program"):
        run(*command[:1], *DEBUG, *command[1:], "traced.cc", "-o", name, cwd=tmp_path, check=True)
    done = run(*after, cwd=tmp_path) if after else None
    if done and done.returncode:
        pytest.skip(f"{after[0]}: {done.stderr}")
    output, _ = separated(path)
    if form == "gcc package":
        for file in tmp_path.glob("*.dwo"):
            file.unlink()
        for name in (path.name, output.name):
            shutil.copy(tmp_path / "package", tmp_path / f"{name}.dwp")
    before, now = report(path), report(output)
    assert before["gdb"].count("traced.cc:") > 3, before["gdb"]
    for tool, answer in before.items():
        assert now[tool] == answer, tool


def test_zstd_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("llvm-objcopy-19")
    (tmp_path / "traced.cc").write_text(TRACED)
    path = tmp_path / "program"
    run("g++", *DEBUG, tmp_path / "traced.cc", "-o", path, check=True)
    run("llvm-objcopy-19", "--compress-debug-sections=zstd", path, check=True)
    monkeypatch.setenv("PATH", "")
    code, facts = refusal(path)
    assert code == "fix.no-zstd"
    assert str(facts["section"]).startswith(".debug_")


@pytest.mark.parametrize("option", ["-fstack-size-section", "-fbasic-block-address-map"])
def test_debug_information_of_another_form_is_refused(option: str, tmp_path: Path) -> None:
    """Addresses in sections of other forms than DWARF's."""
    need_compiler("clang++-19")
    (tmp_path / "traced.cc").write_text(TRACED)
    path = tmp_path / "program"
    run("clang++-19", *DEBUG, option, tmp_path / "traced.cc", "-o", path, check=True)
    assert refusal(path)[0] == "fix.debug-inside"


def with_mini_debug_information(place: Path) -> Path:
    """Make a stripped program with all its function symbols in .gnu_debugdata, as Fedora's find-debuginfo does.

    See add_minidebug in https://sourceware.org/git/?p=debugedit.git;a=blob;f=scripts/find-debuginfo.in.
    """
    need("eu-strip", "xz", "objcopy", "nm")
    (place / "traced.cc").write_text(TRACED)
    path, debug, mini = place / "program", place / "program.debug", place / "mini"
    run("g++", *DEBUG, "-Wl,--build-id", place / "traced.cc", "-o", path, check=True)
    run("eu-strip", "--remove-comment", "-f", debug, path, check=True)
    keep = [
        line.split()[-1]
        for line in run("nm", "--defined-only", debug, check=True).stdout.splitlines()
        if line.split()[-2] in "tTwW"
    ]
    (place / "keep").write_text("\n".join(keep))
    words = ("--remove-section", ".gdb_index", "--remove-section", ".comment", f"--keep-symbols={place}/keep")
    run("objcopy", "-S", *words, debug, mini, check=True)
    run("xz", mini, check=True)
    run("objcopy", "--add-section", f".gnu_debugdata={mini}.xz", path, check=True)
    return path


def test_mini_debug_information(tmp_path: Path) -> None:
    """The symbols in a packed debug file within a program name the same functions in their new place."""
    path = with_mini_debug_information(tmp_path)
    output, step = separated(path)
    inner = []
    for file in (path, output):
        section = Elf(file).sections[".gnu_debugdata"]
        data = file.read_bytes()[section["sh_offset"] : section["sh_offset"] + section["sh_size"]]
        unpacked = tmp_path / f"{file.name}.inner"
        unpacked.write_bytes(lzma.decompress(data))
        inner.append(function_symbols(unpacked))
    assert inner[1] == [(step(value), name) for value, name in inner[0]]
    names = {name for _, name in inner[0]}
    assert {"main", "_ZL4rarei"} <= names
    assert ".symtab" not in Elf(output).sections
    (tmp_path / "program.debug").rename(tmp_path / "away")
    (rare,) = (value for value, name in inner[1] if name == "_ZL4rarei")
    if shutil.which("eu-addr2line"):
        assert run("eu-addr2line", "-fe", output, f"{rare:#x}", check=True).stdout.startswith("_ZL4rarei\n")
    if shutil.which("gdb"):
        words = ("-ex", "break rare", "-ex", "run 1 2 3 4 5", "-ex", "bt")
        stack = run("gdb", "-q", "-nx", "-batch", *words, output).stdout
        assert re.search(r"#0 .* rare\(int\) \(\)\n#1 .* main \(\)", stack), stack
    identities = [run("readelf", "-n", tmp_path / f"{file.name}.inner").stdout for file in (path, output)]
    for file, notes in zip((path, output), identities, strict=True):
        shown = re.search(r"Build ID: (\w+)", notes)
        assert not shown or shown[1] in run("readelf", "-n", file).stdout


#: What a bomb is made of.
BOMB = 200 << 20


@pytest.mark.parametrize("inside", [b"", b"no xz", lzma.compress(b"no ELF file"), BOMB])
def test_damaged_mini_debug_information(inside: bytes | int, tmp_path: Path) -> None:
    """What is not a packed debug file of this program, or unpacks to more than it may, is refused."""
    path = tmp_path / "program"
    (tmp_path / "traced.cc").write_text(TRACED)
    run("g++", *DEBUG, "-s", tmp_path / "traced.cc", "-o", path, check=True)
    (tmp_path / "inside").write_bytes(inside if isinstance(inside, bytes) else lzma.compress(bytes(inside), preset=0))
    run("objcopy", "--add-section", f".gnu_debugdata={tmp_path}/inside", path, check=True)
    assert code_of(path) == ("" if not inside else "fix.debug-inside")


ATTRIBUTES = """
.section .gnu.build.attributes, "", %note
.balign 4
.long 8, 16, 0x100
.asciz "GA$3p1"
.balign 4
.quad main, main + 8
.long 8, 0, 0x101
.asciz "GA*FOR"
.balign 4
.text
.globl main
main: xor %eax, %eax
ret
nop
nop
nop
nop
nop
"""


def test_build_attributes(tmp_path: Path) -> None:
    """Notes of annobin, a plugin of Fedora's compilers, say for which code each option was given."""
    (tmp_path / "main.s").write_text(ATTRIBUTES)
    path = tmp_path / "program"
    run("gcc", "-fPIE", "-pie", tmp_path / "main.s", "-o", path, check=True)
    output, step = separated(path)
    old, new = (
        [
            int(item, 16)
            for line in run("readelf", "-nW", file, check=True).stdout.splitlines()
            if "Applies to region" in line
            for item in re.findall(r"0x[0-9a-f]+", line)
        ]
        for file in (path, output)
    )
    assert new == [step(item) for item in old]
    assert old


@pytest.mark.matrix
def test_damaged_debug_information(tmp_path: Path) -> None:
    """Whatever a byte of it is changed to, the file is refused or separated, and soon."""
    (tmp_path / "traced.cc").write_text(TRACED)
    path = tmp_path / "program"
    run("g++", *DEBUG, tmp_path / "traced.cc", "-o", path, check=True)
    sections = {name: s for name, s in Elf(path).sections.items() if name.startswith(".debug_") and "str" not in name}
    data, codes = path.read_bytes(), set()
    for section in sections.values():
        step = max(1, section["sh_size"] // 12)
        for at in range(section["sh_offset"], section["sh_offset"] + section["sh_size"], step):
            for value in (0, 0x7F, 0xFF):
                wrong = bytearray(data)
                wrong[at] = value
                (tmp_path / "wrong").write_bytes(wrong)
                codes.add(code_of(tmp_path / "wrong"))
    assert codes == {"", "fix.debug-inside"}


@pytest.mark.matrix
def test_memory(bulk: Path, main: Path, tmp_path: Path) -> None:
    """Three million addresses in debug information take less than a hundred bytes each."""
    path, place = tmp_path / "program", tmp_path / "section"
    run("gcc", "-pie", main, bulk, "-o", path, check=True)
    (text,) = (value for value, name in function_symbols(path) if name == "main")
    sections = {
        # A unit of entries, and functions with a beginning.
        ".debug_abbrev": bytes((1, 0x11, 1, 0, 0, 2, 0x2E, 0, 0x11, 0x01, 0, 0, 0)),
        ".debug_info": bytes((5, 0, 1, 8, 0, 0, 0, 0, 1)) + (b"\2" + text.to_bytes(8, "little")) * 3_000_000 + b"\0",
    }
    sections[".debug_info"] = len(sections[".debug_info"]).to_bytes(4, "little") + sections[".debug_info"]
    for name, data in sections.items():
        place.write_bytes(data)
        run("objcopy", "--add-section", f"{name}={place}", path, check=True)
    ended = bounded.run("fix", "--level=separate", path, "-o", tmp_path / "output")
    assert ended.status == 0, ended.stderr
    assert ended.peak < bounded.MEMORY
    (moved,) = (value for value, name in function_symbols(tmp_path / "output") if name == "main")
    section = Elf(tmp_path / "output").sections[".debug_info"]
    result = (tmp_path / "output").read_bytes()[section["sh_offset"] :][: section["sh_size"]]
    assert result == sections[".debug_info"].replace(text.to_bytes(8, "little"), moved.to_bytes(8, "little"))


@pytest.mark.parametrize("compressed", [False, True])
def test_debug_file(compressed: bool, tmp_path: Path) -> None:
    """The moved copy of a debug file is found by the new build ID, and right for those who read only it."""
    (tmp_path / "traced.cc").write_text(TRACED)
    full, program, debug = (tmp_path / name for name in ("full", "program", "full.debug"))
    run("g++", *DEBUG, "-Wl,--build-id", tmp_path / "traced.cc", "-o", full, check=True)
    run("objcopy", "--only-keep-debug", *["--compress-debug-sections"] * compressed, full, debug, check=True)
    run("strip", "-g", "-o", program, full, check=True)
    run("objcopy", f"--add-gnu-debuglink={debug}", program, check=True)
    output, step = separated(program)
    moved = tmp_path / "moved.debug"
    identity = debugfile.move_debug_file(str(debug), str(output), str(moved))
    assert [f"Build ID: {identity}" in run("readelf", "-n", item).stdout for item in (output, moved, debug)] == [
        True,
        True,
        False,
    ]
    (main,) = (address for address, name in function_symbols(full) if name == "main")
    before = run("addr2line", "-fie", debug, f"{main:#x}", check=True).stdout
    assert run("addr2line", "-fie", moved, f"{step(main):#x}", check=True).stdout == before
    assert "traced.cc:" in before
    if shutil.which("gdb"):
        place = tmp_path / "debug" / ".build-id" / identity[:2]
        place.mkdir(parents=True)
        moved.rename(place / f"{identity[2:]}.debug")
        debug.unlink()
        words = (
            f"set debug-file-directory {tmp_path}/debug",
            f"file {output}",
            "break twice<int>",
            "run",
            "bt",
            "info locals",
        )
        reported = run("gdb", "-q", "-nx", "-batch", *(word for item in words for word in ("-ex", item))).stdout
        assert re.search(r"#0 +twice<int> .*traced.cc:\d+\n#1 .* main .*traced.cc:\d+", reported), reported


def test_debug_file_of_another_program(tmp_path: Path) -> None:
    (tmp_path / "traced.cc").write_text(TRACED)
    for name, option in (("one", "-O1"), ("other", "-O2")):
        run("g++", *DEBUG, option, "-Wl,--build-id", tmp_path / "traced.cc", "-o", tmp_path / name, check=True)
        run("objcopy", "--only-keep-debug", tmp_path / name, tmp_path / f"{name}.debug", check=True)
    output, _ = separated(tmp_path / "one")
    for name, program, code in (
        ("other.debug", output, "fix.other-debug-file"),
        ("one", output, "fix.no-debug-file"),
        ("one.debug", tmp_path / "one", "fix.no-record"),
    ):
        with pytest.raises(RefusalError) as caught:
            debugfile.move_debug_file(str(tmp_path / name), str(program), str(tmp_path / "moved"))
        assert caught.value.diagnosis.code == code


def test_command(tmp_path: Path) -> None:
    """What the commands print, and where things go."""
    (tmp_path / "traced.cc").write_text(TRACED)
    full, program, debug, output, moved = (tmp_path / name for name in ("full", "program", "debug", "output", "moved"))
    run("g++", *DEBUG, "-Wl,--build-id", tmp_path / "traced.cc", "-o", full, check=True)
    run("objcopy", "--only-keep-debug", full, debug, check=True)
    run("strip", "-o", program, full, check=True)
    done = run(HUGEALIGN, "fix", "--level=separate", program, "-o", output, HUGEALIGN_MIN_TEXT="0")
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 B of read-only data become executable" in done.stdout
    assert run(output, check=True).stdout == run(program, check=True).stdout
    reported = run(HUGEALIGN, "fix", "--debug-file-of", output, debug, "-o", moved, check=True).stdout
    assert reported.split()[-1] in run("readelf", "-n", output, check=True).stdout
    run(HUGEALIGN, "fix", "--undo", output, check=True)
    assert output.read_bytes() == program.read_bytes()


#: What llvm-dwarfdump prints as addresses, behind numbers and references that it prints alike.
ADDRESS = re.compile(
    r"DW_AT_(?:const_value|upper_bound|lower_bound|count|byte_size|signature|GNU_dwo_id|\w*(?:type|origin|specification)"
    r"|import|sibling|extension|object_pointer|discr|friend|GO_\w+)\t\(\w+|DW_OP_const\w+ \w+"
    r"|\b0x([0-9a-f]{16})\b|\bpc=([0-9a-f]+)\.\.\.([0-9a-f]+)|DW_OP_addr 0x([0-9a-f]+)"
    r"|^ +0x([0-9a-f]+): CFA| to 0x([0-9a-f]+)$| Address: ([0-9a-f]+)$"
)
BUILD_IDS = Path("/usr/lib/debug/.build-id")


def dumped(path: Path) -> Iterator[tuple[str, list[int]]]:
    """What llvm-dwarfdump reads in *path*: each line without its addresses, and these."""
    parts = ("--debug-info", "--debug-line", "--debug-aranges", "--debug-frame")
    with subprocess.Popen([DWARFDUMP, *parts, path], stdout=subprocess.PIPE, text=True, errors="replace") as reading:
        assert reading.stdout
        for line in reading.stdout:
            result = [int(item, 16) for match in ADDRESS.finditer(line) for item in match.groups() if item]
            yield ADDRESS.sub(lambda match: "" if any(match.groups()) else match[0], line) if result else line, result
    assert reading.returncode == 0


def assert_moved(old: Path, new: Path, step: Step, last: int) -> int:
    """Assert that the readings differ in addresses alone, each by the *step*; return how many there are."""
    count = 0
    lines = itertools.zip_longest(dumped(old), dumped(new))
    next(lines)  # the file's name
    for before, after in lines:
        assert before
        assert after
        assert after[0] == before[0]
        assert after[1] == [step(address) if address <= last else address for address in before[1]], before
        count += len(before[1])
    return count


@pytest.mark.matrix
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("what", [*LANGUAGES, "the C library"])
def test_debug_information_of_large_programs(what: str, tmp_path: Path) -> None:
    """What other compilers and a distribution write is read by LLVM as before, at other addresses."""
    need(DWARFDUMP)
    if what == "the C library":
        path = tmp_path / "libc.so.6"
        shutil.copy("/lib/x86_64-linux-gnu/libc.so.6", path)
        identity = re.search(r"Build ID: (\w+)", run("readelf", "-n", path, check=True).stdout)
        assert identity
        old = BUILD_IDS / identity[1][:2] / f"{identity[1][2:]}.debug"
        if not old.exists():
            pytest.skip("no debug file of the C library is installed (libc6-dbg)")
        output, step = separated(path)
        new = tmp_path / "moved.debug"
        debugfile.move_debug_file(str(old), str(output), str(new))
    else:
        path = old = in_language(what, tmp_path)
        new, step = separated(path)
    segments = [s for s in Elf(path).segments if s["p_type"] == "PT_LOAD"]
    assert assert_moved(old, new, step, max(s["p_vaddr"] + s["p_memsz"] for s in segments)) > 1000
