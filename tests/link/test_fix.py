"""``hugealign fix`` on what real linkers made: the program in memory is the same, tools agree, undoing is exact."""

import json
import os
import re
import shutil
import stat
import struct
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from hugealign.diagnosis.catalogue import REMEDIES
from tests import documents
from tests.link import test_tools_after
from tests.link.bulk import MAIN, bulk_object
from tests.support import HUGEALIGN, LLVM, PAGE, ROOT, Elf, Toolchain, need_compiler, run, worded

KINDS = {
    "pie": ("-pie",),
    "no-pie": ("-no-pie",),
    "static": ("-static",),
    "static-pie": ("-static-pie",),
}
RELINK = REMEDIES["relink"]
CANNOT = {("gold", "static-pie"): "gold knows no static-pie (--no-dynamic-linker)"}
DAILY = ("gcc-bfd", "gcc-lld19", "gcc-gold", "gcc-mold")
#: As Debian links: no room for huge pages anywhere.
PLAIN = "-Wl,-z,max-page-size=0x1000"

#: Only the boundaries of segments move, as far as they can.
BOUNDARIES = ("--level=shift", "--max-executable=1G")

every_toolchain = pytest.mark.parametrize(
    "name",
    [
        *DAILY,
        *(
            pytest.param(name, marks=pytest.mark.matrix)
            for name in ("gcc-lld14", "clang14-lld14", "clang19-lld19", "clang19-bfd", "clang19-mold")
        ),
    ],
)


def memory(path: Path) -> dict[int, tuple[int, bytes]]:
    """What the loader makes of a file, without its headers: address -> (writable, bytes in the file and zeros)."""
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        headers = elf["e_phoff"] + 56 * elf["e_phnum"]
        result = {}
        for segment in elf.iter_segments():
            if segment["p_type"] == "PT_LOAD":
                data = bytearray(segment.data().ljust(segment["p_memsz"], b"\0"))
                if segment["p_offset"] == 0:
                    data[:headers] = bytes(headers)
                result[segment["p_vaddr"]] = (segment["p_flags"] & 2, bytes(data))
        return result


def assert_same_in_memory(old: Path, new: Path) -> None:
    """Every byte of *old* is at its address in *new*, as writable as before."""
    mapped = memory(new)
    for address, (writable, data) in memory(old).items():
        at = address
        while at < address + len(data):
            start = max(base for base in mapped if base <= at)
            now, content = mapped[start]
            part = content[at - start :][: address + len(data) - at]
            assert part, f"{at:#x} is not mapped"
            assert now == writable
            assert part == data[at - address :][: len(part)]
            at += len(part)


def fix(*words: object) -> str:
    """Run ``hugealign fix`` and return what it said; without another level, boundaries move as far as they can."""
    done = run(HUGEALIGN, "fix", *BOUNDARIES, *words)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def windows(said: str) -> int:
    """Return the number of windows that fix promises."""
    match = re.search(r"-> (\d+) windows? of", said)
    assert match, said
    return int(match[1])


def verified(path: Path) -> int:
    """Return the number of windows that verify finds."""
    match = re.search(r"in (\d+) windows?", run(HUGEALIGN, "verify", path).stdout)
    return int(match[1]) if match else 0


def check(plain: Path, *command: object) -> None:
    """Fix *plain*, look at the result, run it as *command*, undo."""
    fixed, back = plain.with_name(f"{plain.name}.fixed"), plain.with_name(f"{plain.name}.back")
    printed = fix(plain, "-o", fixed)
    if "nothing to do" in printed:
        # gold's programs at fixed addresses: one segment from the window on which they begin, data behind it.
        assert (Elf(plain).type, len(Elf(plain).loads), verified(plain)) == ("ET_EXEC", 2, 1)
        assert fixed.read_bytes() == plain.read_bytes()
        return
    elf = Elf(fixed)
    (text,) = (s for s in elf.text if s["p_memsz"] >= PAGE)
    assert (text["p_vaddr"] - text["p_offset"]) % PAGE == 0
    assert text["p_align"] >= PAGE
    assert verified(fixed) == windows(printed) > verified(plain)
    assert_same_in_memory(plain, fixed)
    assert run(*command, fixed).returncode == 0
    fix("--undo", fixed, "-o", back)
    assert back.read_bytes() == plain.read_bytes()


@every_toolchain
@pytest.mark.parametrize("kind", KINDS)
def test_program(
    name: str, kind: str, toolchains: dict[str, Toolchain], features: Path, bulk: Path, tmp_path: Path
) -> None:
    toolchain = toolchains[name].needed()
    if reason := CANNOT.get((toolchain.linker, kind)):
        pytest.skip(reason)
    plain = tmp_path / "plain"
    run(toolchain.cxx, *toolchain.flags, *KINDS[kind], features, bulk, PLAIN, "-o", plain, check=True)
    assert run(plain).returncode == 0
    check(plain)


@every_toolchain
def test_library(name: str, toolchains: dict[str, Toolchain], bulk: Path, main: Path, tmp_path: Path) -> None:
    """Linked against, and opened with dlopen."""
    toolchain = toolchains[name].needed()
    library = tmp_path / "libbulk.so"
    run(toolchain.cc, *toolchain.flags, "-shared", bulk, PLAIN, "-Wl,-soname,libbulk.so", "-o", library, check=True)
    run("gcc", main, library, "-o", tmp_path / "user", check=True)
    (tmp_path / "opener.c").write_text(
        "#include <dlfcn.h>\n"
        "int main(int c, char **v) { void *l = dlopen(v[1], RTLD_NOW);"
        ' unsigned (*f)(void) = l ? dlsym(l, "big_sum") : 0; return !f || !f(); }\n'
    )
    run("gcc", tmp_path / "opener.c", "-o", tmp_path / "opener", check=True)
    check(library, tmp_path / "opener")
    shutil.copy(library, tmp_path / "before")
    fix("--in-place", library)
    assert run(tmp_path / "user", LD_LIBRARY_PATH=str(tmp_path)).returncode == 0


@pytest.mark.parametrize("page", ["64K", "1M", "32M"])
def test_page_sizes(page: str, features: Path, bulk: Path, tmp_path: Path) -> None:
    run("g++", "-no-pie", features, bulk, PLAIN, "-o", tmp_path / "plain", check=True)
    done = run(HUGEALIGN, "fix", *BOUNDARIES, "--page-size", page, tmp_path / "plain", "-o", tmp_path / "out")
    if page == "32M":
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            f"hugealign: error: {tmp_path}/plain: {worded('fix.no-window', page_size=32 << 20)}; {RELINK}\n"
        )
        assert not (tmp_path / "out").exists()
        return
    assert done.returncode == 0
    assert run(tmp_path / "out").returncode == 0
    size = {"64K": 1 << 16, "1M": 1 << 20}[page]
    (text,) = Elf(tmp_path / "out").text
    assert text["p_align"] == size
    assert (text["p_vaddr"] - text["p_offset"]) % size == 0


def test_align(features: Path, bulk: Path, tmp_path: Path) -> None:
    """Eight bytes of the program headers, and nothing executable that was not."""
    plain, out = tmp_path / "plain", tmp_path / "out"
    run("g++", features, bulk, bulk_object(tmp_path, 4000), PLAIN, "-Wl,-z,muldefs", "-o", plain, check=True)
    printed = fix("--level", "align", plain, "-o", out)
    assert "\n  0 B of read-only data become executable\n" in printed
    assert [s | {"p_align": 0} for s in Elf(plain).segments] == [s | {"p_align": 0} for s in Elf(out).segments]
    assert verified(out) == windows(printed) == 2
    assert run(out).returncode == 0
    assert "\n  changed by hugealign fix --level=align; --undo restores" in run(HUGEALIGN, "verify", out).stdout
    (report,) = json.loads(run(HUGEALIGN, "verify", "--json", out).stdout)["files"]
    assert report["fix_level"] == "align"


@pytest.mark.parametrize("kind", ["pie", "no-pie"])
@pytest.mark.parametrize("name", DAILY)
def test_two_texts(
    name: str, kind: str, toolchains: dict[str, Toolchain], bulk: Path, main: Path, tmp_path: Path
) -> None:
    """Code aligned to more than a page: GNU ld gives it a segment of its own, behind the one of the PLT."""
    toolchain = toolchains[name].needed()
    (tmp_path / "aligned.s").write_text('.text\n.balign 0x8000\nret\n.section .note.GNU-stack,"",@progbits\n')
    plain = tmp_path / "plain"
    words = (main, bulk, tmp_path / "aligned.s", *KINDS[kind], PLAIN, "-o", plain)
    run(toolchain.cc, *toolchain.flags, *words, check=True)
    if name in {"gcc-bfd", "gcc-mold"}:
        assert len(Elf(plain).text) == 2
    if name == "gcc-mold":
        # It packs the first text and leaves room before the second, less than the first would have to move.
        done = run(HUGEALIGN, "fix", *BOUNDARIES, plain, "-o", tmp_path / "out")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.endswith(f"{worded('fix.no-room')}; {RELINK}\n")
        assert not (tmp_path / "out").exists()
        return
    check(plain)


def test_texts_far_apart(bulk: Path, main: Path, tmp_path: Path) -> None:
    """Writable data between them: each gets windows of its own, and nothing between them becomes executable."""
    (tmp_path / "far.s").write_text(
        '.section .far,"ax"\n.fill 5 << 20, 1, 0xc3\n.section .note.GNU-stack,"",@progbits\n'
    )
    run("gcc", "-c", tmp_path / "far.s", "-o", tmp_path / "far.o", check=True)
    plain, fixed, back = (tmp_path / name for name in ("plain", "fixed", "back"))
    (tmp_path / "far.ld").write_text("SECTIONS { . = ALIGN(0x1000) + 0x1000; .far : { *(.far) } } INSERT AFTER .bss;\n")
    run("gcc", main, bulk, tmp_path / "far.o", f"-Wl,-T,{tmp_path}/far.ld", PLAIN, "-o", plain, check=True)
    old = Elf(plain)
    assert len(old.text) == 2
    printed = fix(plain, "-o", fixed)
    first, second = Elf(fixed).text
    assert all((t["p_vaddr"] - t["p_offset"]) % PAGE == 0 and t["p_align"] == PAGE for t in (first, second))
    assert first["p_vaddr"] + first["p_memsz"] <= min(s["p_vaddr"] for s in Elf(fixed).loads if s["p_flags"] & 2)
    assert windows(printed) == verified(fixed) >= 3
    assert_same_in_memory(plain, fixed)
    assert run(fixed).returncode == 0
    fix("--undo", fixed, "-o", back)
    assert back.read_bytes() == plain.read_bytes()


AARCH64 = "aarch64-linux-gnu-gcc"


@pytest.mark.skipif(not shutil.which(AARCH64) or not shutil.which("qemu-aarch64"), reason="no cross compiler or qemu")
@pytest.mark.parametrize("linker", ["bfd", "gold", "lld19", "mold"])
@pytest.mark.parametrize("kind", ["-pie", "-no-pie", "-static"])
def test_aarch64(linker: str, kind: str, tmp_path: Path) -> None:
    words = {
        "bfd": (),
        "gold": ("-fuse-ld=gold",),
        "lld19": ("-fuse-ld=lld", f"-B{LLVM['lld19']}"),
        "mold": ("-B/usr/libexec/mold",),
    }[linker]
    need_compiler(AARCH64, *words)
    (tmp_path / "main.c").write_text(MAIN)
    bulk = bulk_object(tmp_path, compiler=AARCH64)
    run(AARCH64, *words, kind, tmp_path / "main.c", bulk, "-o", tmp_path / "plain", check=True)
    check(tmp_path / "plain", "qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")


@pytest.fixture
def plain(main: Path, bulk: Path, tmp_path: Path) -> Path:
    """A program as GNU ld makes it: one segment of text between two of read-only data."""
    path = tmp_path / "plain"
    run("gcc", main, bulk, PLAIN, "-o", path, check=True)
    return path


def test_output_has_the_mode_of_the_input(plain: Path, tmp_path: Path) -> None:
    """... less what confers privileges: whoever wants these sets them."""
    plain.chmod(0o4750)
    fix(plain, "-o", tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o750
    assert sorted(os.listdir(tmp_path)) == ["main.c", "main.o", "out", "plain"]


def test_output_takes_the_place_of_another_file(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("x")
    (tmp_path / "link").symlink_to("other")
    fix(plain, "-o", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert run(tmp_path / "other").returncode == 0


@pytest.mark.parametrize("output", ["plain", "same"])
def test_output_is_not_the_input(output: str, plain: Path, tmp_path: Path) -> None:
    (tmp_path / "same").hardlink_to(plain)
    done = run(HUGEALIGN, "fix", plain, "-o", tmp_path / output)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("OUT is FILE itself; use --in-place\n")


def test_a_directory_is_no_output(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    done = run(HUGEALIGN, "fix", plain, "-o", tmp_path / "dir")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.endswith(f"{worded('file.special')}\n")


def test_dry_run_writes_nothing(plain: Path) -> None:
    before = plain.read_bytes(), plain.stat()
    printed = fix("--dry-run", plain)
    assert printed.splitlines()[0] == f"{plain}: 0 -> 1 window of 2.0 MiB (not done: --dry-run)"
    assert (plain.read_bytes(), plain.stat().st_mtime_ns) == (before[0], before[1].st_mtime_ns)
    fix("--in-place", plain)
    assert "(not done: --dry-run)" in fix("--undo", "--dry-run", plain)
    assert verified(plain) == 1


def test_twice_is_once(plain: Path, tmp_path: Path) -> None:
    fix("--in-place", plain)
    once = plain.read_bytes()
    assert fix("--in-place", plain).startswith(f"{plain}: nothing to do: ")
    assert plain.read_bytes() == once
    fix(plain, "-o", tmp_path / "out")  # a copy all the same, for scripts
    assert (tmp_path / "out").read_bytes() == once


def test_twice_is_once_where_another_window_could_be_made(bulk: Path, main: Path, tmp_path: Path) -> None:
    """The boundary goes around .eh_frame_hdr; from there, the next section could be cut at the end of a window."""
    (tmp_path / "data.s").write_text(
        '.section .rodata, "a"\n.fill 0x103000, 1, 7\n'
        '.section .gcc_except_table, "a"\n.fill 4 << 20, 1, 8\n'
        '.section .note.GNU-stack, "", @progbits\n'
    )
    run("gcc", main, bulk, tmp_path / "data.s", PLAIN, "-o", tmp_path / "plain", check=True)
    fix("--in-place", tmp_path / "plain")
    once = (tmp_path / "plain").read_bytes()
    text = Elf(tmp_path / "plain").text[0]
    assert (text["p_vaddr"] + text["p_memsz"]) % PAGE
    assert fix("--in-place", tmp_path / "plain").startswith(f"{tmp_path}/plain: nothing to do: ")
    assert "nothing to do" in fix("--in-place", "--page-size=1M", tmp_path / "plain")  # no more would hold code
    assert (tmp_path / "plain").read_bytes() == once


def test_another_level_needs_the_original(bulk: Path, main: Path, tmp_path: Path) -> None:
    """After align there is more to gain, but from the original file only."""
    run("gcc", main, bulk, bulk_object(tmp_path, 4000), PLAIN, "-Wl,-z,muldefs", "-o", tmp_path / "plain", check=True)
    fix("--level", "align", "--in-place", tmp_path / "plain")
    done = run(HUGEALIGN, "fix", "--in-place", tmp_path / "plain")
    assert done.returncode == 1
    undo = f"run: hugealign fix --undo {tmp_path}/plain"
    assert f"{worded('fix.fixed-already', level='align')}; {undo}\n" in done.stderr
    fix("--undo", tmp_path / "plain")
    fix("--in-place", tmp_path / "plain")
    assert run(tmp_path / "plain").returncode == 0


def test_undo_of_what_was_not_fixed(plain: Path, tmp_path: Path) -> None:
    done = run(HUGEALIGN, "fix", "--undo", plain, "-o", tmp_path / "out")
    assert done.returncode == 1
    assert worded("fix.no-record") in done.stderr
    assert not (tmp_path / "out").exists()


def test_verify_says_that_data_became_executable(plain: Path) -> None:
    fix("--in-place", plain)
    done = run(HUGEALIGN, "verify", plain)
    assert done.returncode == 0 or "HA004" in done.stdout  # the tail that writable data follow
    assert "HA009" in done.stdout


def test_verify_says_when_another_tool_has_changed_it(plain: Path) -> None:
    fix("--in-place", plain)
    run("strip", plain, check=True)
    printed = " ".join(run(HUGEALIGN, "verify", plain).stdout.split())
    assert "changed by hugealign fix --level=shift, and since then by another tool: it cannot be undone" in printed
    assert "--undo" not in printed


def test_padding_within_the_text_has_lost_nothing(main: Path, bulk: Path, tmp_path: Path) -> None:
    """The gap before a text far away is padded; behind the text are data, so it may end within a window."""
    far = ("-no-pie", "-Wl,--section-start=.init=0x605000")
    run("gcc", main, bulk, PLAIN, *far, "-o", tmp_path / "plain", check=True)
    fix("--in-place", tmp_path / "plain")
    (text,) = Elf(tmp_path / "plain").text
    assert (text["p_vaddr"] + text["p_memsz"]) % PAGE
    printed = run(HUGEALIGN, "verify", tmp_path / "plain").stdout
    assert "HA028" in printed
    assert "HA019" not in printed


#: A command that makes the file, or bytes that are written over the program at offsets of its ELF header; the status;
#: the code of the refusal with status 1, else a part of the message.  commands/test_file_diagnoses.py has all codes.
REFUSALS: dict[str, tuple[str | dict[int, bytes], int, str]] = {
    "an object file": ("gcc -c main.c -o made", 1, "file.object"),
    "truncated": ("head -c 100000 plain >made", 3, "file.damaged"),
    "text": ("echo hello >made", 3, "file.not-elf"),
    "empty": (": >made", 3, "file.empty"),
    "32 bits": ({4: b"\1"}, 3, "file.damaged"),
    "small": ("gcc main_small.c -o made", 1, "text.small"),
    "no file": (":", 3, "file.unreadable"),
    "a directory": ("mkdir made", 3, "file.special"),
    "a pipe": ("mkfifo made", 3, "file.special"),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_refused(what: str, plain: Path, tmp_path: Path) -> None:
    command, status, code = REFUSALS[what]
    (tmp_path / "main_small.c").write_text("int main(void) { return 0; }\n")
    if isinstance(command, str):
        run("sh", "-c", command, cwd=tmp_path, check=True)
    else:
        data = bytearray(plain.read_bytes())
        for offset, new in command.items():
            data[offset : offset + len(new)] = new
        (tmp_path / "made").write_bytes(data)
    before = sorted(os.listdir(tmp_path))
    for words in (("-o", tmp_path / "out"), ("--in-place",), ("--dry-run",)):
        if what == "a directory" and words == ("--dry-run",):
            continue  # its files are ranked
        done = run(HUGEALIGN, "fix", tmp_path / "made", *words)
        assert (done.returncode, done.stdout) == (status, "")
        assert done.stderr.startswith(f"hugealign: error: {tmp_path}/made: ")
        assert len(done.stderr.splitlines()) == 1
    (error,) = json_of("fix-1", tmp_path / "made", "-o", tmp_path / "out", status=status)["errors"]
    assert (error["message"], error["diagnosis"]["code"]) == (None, code)
    assert error["diagnosis"]["subject"] == f"{tmp_path}/made"
    assert sorted(os.listdir(tmp_path)) == before


def test_program_headers_elsewhere(plain: Path) -> None:
    """As BOLT leaves them: the new ones take their place; undone, the file is what it was."""
    data = bytearray(plain.read_bytes())
    data += bytes(-len(data) % 8)
    (at,), (count,) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<H", data, 56)
    struct.pack_into("<Q", data, 32, len(data))
    plain.write_bytes(data + data[at : at + 56 * count])
    before = plain.read_bytes()
    fix("--in-place", plain)
    after = plain.read_bytes()
    assert after[:40] == before[:40]  # they are where they were
    assert after[64 : 64 + 56 * count] == before[64 : 64 + 56 * count]  # which no reader needs
    assert Elf(plain).text[0]["p_align"] == PAGE
    fix("--undo", plain)
    assert plain.read_bytes() == before


def test_what_would_be_refused_is_not_promised(plain: Path) -> None:
    """What only the new headers show: here, that they cannot be named."""
    assert str(plain) in run(HUGEALIGN, "fix", "--dry-run", plain.parent).stdout
    data = bytearray(plain.read_bytes())
    (e_shoff,), (e_shstrndx,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 62)
    (size,) = struct.unpack_from("<Q", data, e_shoff + 64 * e_shstrndx + 32)
    struct.pack_into("<Q", data, e_shoff + 64 * e_shstrndx + 32, size // 2)
    plain.write_bytes(data)
    assert run(HUGEALIGN, "fix", "--dry-run", plain).returncode == 1
    assert str(plain) not in run(HUGEALIGN, "fix", "--dry-run", plain.parent).stdout


def test_names_outside_of_their_table(plain: Path) -> None:
    """What is appended to the table must not become the name of a section that was there."""
    data = bytearray(plain.read_bytes())
    (e_shoff,), (e_shstrndx,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 62)
    names = e_shoff + 64 * e_shstrndx
    (offset,) = struct.unpack_from("<Q", data, names + 24)
    struct.pack_into("<Q", data, names + 32, data.index(b"\0", offset + 1) + 1 - offset)
    plain.write_bytes(data)
    done = run(HUGEALIGN, "fix", "--in-place", plain)
    assert done.stderr == f"hugealign: error: {plain}: {worded('fix.section-names')}; {RELINK}\n"
    assert plain.read_bytes() == data


def test_hostile_name(plain: Path, tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m\nb"
    shutil.copy(plain, path)
    assert fix("--in-place", path).startswith(f"{tmp_path}/a\\x1b[31m\\nb: 0 -> 1 window")


#: What packagers and others do to a file afterwards (docs/explanation/fixed-files.md).
AFTERWARDS = {
    name: test_tools_after.TOOLS[name]
    for name in (
        "strip", "strip -g", "llvm-strip-14", "llvm-strip-19", "eu-strip", "objcopy --add-gnu-debuglink",
        "objcopy --remove-section", "llvm-objcopy-19", "patchelf --set-rpath", "patchelf --set-interpreter", "chrpath",
        "cp --sparse=always", "tar -S",
    )
} | {"hugealign fix": f"{HUGEALIGN} fix {{i}} -o {{o}}"}  # fmt: skip
#: The windows outlive all of these, --undo these.
UNDOABLE = {"chrpath", "hugealign fix", "cp --sparse=always", "tar -S"}


@pytest.mark.parametrize("name", [*DAILY[:2], *(pytest.param(name, marks=pytest.mark.matrix) for name in DAILY[2:])])
@pytest.mark.parametrize("tool", AFTERWARDS)
def test_tools_afterwards(
    name: str, tool: str, toolchains: dict[str, Toolchain], features: Path, bulk: Path, tmp_path: Path
) -> None:
    command, undoable = AFTERWARDS[tool], tool in UNDOABLE
    if not shutil.which(command.split("&& ")[-1].split()[0]):
        pytest.skip(f"{command.split()[0]} is not installed")
    toolchain = toolchains[name]
    plain, before, after = tmp_path / "plain", tmp_path / "in", tmp_path / "out"
    # So much that a window begins or ends in it: the section is cut.
    (tmp_path / "data.s").write_text('.section .rodata\n.fill 6 << 20, 1, 7\n.section .note.GNU-stack,"",@progbits\n')
    words = (features, bulk, tmp_path / "data.s", PLAIN, "-Wl,-rpath,/no/such/path", "-o", plain)
    run(toolchain.cxx, *toolchain.flags, *words, check=True)
    fix(plain, "-o", before)
    with before.open("rb") as stream:
        names = [section.name for section in ELFFile(stream).iter_sections()]
    assert names.count(".rodata") == 2 or name == "gcc-gold"
    run("sh", "-c", command.format(i=f"'{before}'", o=f"'{after}'", d=f"'{tmp_path}'"), check=True)
    assert run(after).returncode == 0
    assert verified(after) == verified(before)
    done = run(HUGEALIGN, "fix", "--undo", after, "-o", tmp_path / "back")
    assert (done.returncode == 0) is undoable, done.stderr
    assert ("--undo restores the old file" in run(HUGEALIGN, "verify", after).stdout) is undoable
    if undoable:
        assert run(tmp_path / "back").returncode == 0
    else:
        whys = worded("fix.changed-since"), worded("fix.no-record"), worded("file.damaged", part=".hugealign.fix")
        assert any(why in done.stderr for why in whys)
        assert not (tmp_path / "back").exists()


EXAMPLES = ROOT / "examples" / "fix"


def test_example_script(plain: Path, tmp_path: Path) -> None:
    """What is in the list is fixed again after it has been replaced; what is not there, or cannot be fixed, is said."""
    (tmp_path / "list").write_text(f"# programs\n\n{plain}\n{tmp_path}/gone\n{tmp_path}/main.o")
    done = run(EXAMPLES / "hugealign-refix.sh", tmp_path / "list")
    assert done.returncode == 1
    assert done.stderr == f"hugealign: error: {tmp_path}/main.o: {worded('file.object')}\n"
    assert verified(plain) == 2
    (tmp_path / "list").write_text(str(plain))
    done = run(EXAMPLES / "hugealign-refix.sh", tmp_path / "list")
    assert done.returncode == 0
    assert "nothing to do" in done.stdout
    assert run(EXAMPLES / "hugealign-refix.sh", tmp_path / "no-list").returncode == 0


def test_example_of_an_apt_hook() -> None:
    if not shutil.which("apt-config"):
        pytest.skip("apt is not installed")
    printed = run("apt-config", "-c", EXAMPLES / "80hugealign", "dump", "DPkg::Post-Invoke", check=True).stdout
    assert 'DPkg::Post-Invoke:: "/usr/local/sbin/hugealign-refix || true";' in printed.splitlines()


def test_dpkg_sees_it(plain: Path, tmp_path: Path) -> None:
    """A package made for it, in a directory of its own: `dpkg -V` names the file until the fix is undone."""
    if not shutil.which("dpkg-deb"):
        pytest.skip("dpkg is not installed")
    package, root = tmp_path / "package", tmp_path / "root"
    (package / "DEBIAN").mkdir(parents=True)
    (package / "usr" / "bin").mkdir(parents=True)
    for name in ("info", "updates", "triggers"):
        (root / "var" / "lib" / "dpkg" / name).mkdir(parents=True)
    for name in ("status", "available"):
        (root / "var" / "lib" / "dpkg" / name).touch()
    shutil.copy(plain, package / "usr" / "bin" / "plain")
    control = "Package: plain\nVersion: 1\nArchitecture: all\nMaintainer: nobody <a@example.org>\nDescription: plain\n"
    (package / "DEBIAN" / "control").write_text(control)
    digest = run("md5sum", "usr/bin/plain", cwd=package, check=True).stdout
    (package / "DEBIAN" / "md5sums").write_text(digest)
    run("dpkg-deb", "--root-owner-group", "-b", package, tmp_path / "plain.deb", check=True)
    dpkg = ("dpkg", f"--root={root}", f"--log={tmp_path}/log", "--force-not-root", "--force-script-chrootless")
    run(*dpkg, "--unpack", tmp_path / "plain.deb", check=True)
    assert run(*dpkg, "-V", "plain").stdout == ""
    fix("--in-place", root / "usr" / "bin" / "plain")
    assert run(*dpkg, "-V", "plain").stdout.split() == ["??5??????", "/usr/bin/plain"]
    fix("--undo", root / "usr" / "bin" / "plain")
    assert run(*dpkg, "-V", "plain").stdout == ""


def json_of(schema: str, *words: object, status: int = 0) -> dict[str, Any]:
    """Run ``hugealign fix --json`` and hold what it prints against the schema that ships for it."""
    done = run(HUGEALIGN, "fix", *BOUNDARIES, "--json", *words)
    assert (done.returncode, done.stderr) == (status, ""), done.stderr
    document: dict[str, Any] = documents.check(done.stdout)
    assert document["schema"] == f"hugealign.{schema.replace('-1', '/1')}"
    return document


def test_json(plain: Path, tmp_path: Path) -> None:
    """The plan, what was done, what was refused, and undoing."""
    size = plain.stat().st_size
    (planned,) = json_of("fix-1", "--dry-run", plain)["files"]
    assert (planned["path"], planned["action"], planned["output"]) == (str(plain), "fix", None)
    (loads,) = [[s for s in Elf(plain).segments if s["p_type"] == "PT_LOAD"]]
    text = next(e for e in planned["plan"]["edits"] if e["flags"] == "R-E")
    old = next(s for s in loads if s["p_flags"] & 1)
    assert text["before"] == {"start": old["p_vaddr"], "end": old["p_vaddr"] + old["p_memsz"], "align": old["p_align"]}
    assert planned["plan"]["text_bytes"] == old["p_memsz"]
    assert (planned["plan"]["windows_before"], planned["plan"]["windows"], planned["plan"]["moves"]) == (0, 1, [])

    name = tmp_path / "a\x1bb"
    document = json_of("fix-1", plain, "-o", name)
    assert document["files"] == [planned | {"output": f"{tmp_path}/a\\x1bb"}]
    assert name.stat().st_size == planned["size"] > planned["size_before"] == size
    (new,) = Elf(name).text
    assert text["after"] == {"start": new["p_vaddr"], "end": new["p_vaddr"] + new["p_memsz"], "align": PAGE}
    fixed = plain.read_bytes(), name.read_bytes()

    document = json_of("fix-1", "--in-place", plain, tmp_path / "main.o", tmp_path / "no", status=3)
    assert document["files"] == [planned | {"output": str(plain)}]
    refused, missing = document["errors"]
    assert missing["diagnosis"]["facts"] == {"error": "ENOENT"}
    assert refused == (
        {
            "target": f"{tmp_path}/main.o",
            "message": None,
            "diagnosis": {
                "code": "file.object",
                "severity": "error",
                "subject": f"{tmp_path}/main.o",
                "facts": {},
                "message": worded("file.object"),
                "remedy": None,
            },
        }
    )
    assert plain.read_bytes() == fixed[1]

    (nothing,) = json_of("fix-1", "--in-place", plain)["files"]
    assert (nothing["action"], nothing["output"], nothing["plan"]["edits"]) == ("nothing", None, [])
    assert (nothing["plan"]["windows_before"], nothing["plan"]["windows"]) == (1, 1)

    (undone,) = json_of("fix-1", "--undo", plain)["files"]
    assert (undone["action"], undone["plan"], undone["size"]) == ("undo", None, size)
    assert plain.read_bytes() == fixed[0]


def test_json_of_contents_that_move(toolchains: dict[str, Toolchain], bulk: Path, main: Path, tmp_path: Path) -> None:
    toolchain = toolchains["gcc-lld19"].needed()
    run(toolchain.cc, *toolchain.flags, main, bulk, PLAIN, "-o", tmp_path / "plain", check=True)
    (done,) = json_of("fix-1", tmp_path / "plain", "-o", tmp_path / "out")["files"]
    old, new = (tmp_path / "plain").read_bytes(), (tmp_path / "out").read_bytes()
    assert done["plan"]["moves"]
    for move in done["plan"]["moves"]:
        source, target, length = move["source"], move["target"], move["bytes"]
        assert old[source : source + length] == new[target : target + length]
    assert {"segment": 2, "flags": "R--", "after": None}.items() <= done["plan"]["edits"][0].items()


def test_report(plain: Path, tmp_path: Path) -> None:
    """Ranked, each file once, those that run first; what would gain nothing or be refused is left out."""
    tree = tmp_path / "tree" / "deep"
    tree.mkdir(parents=True)
    shutil.copy(plain, tree / "one")
    shutil.copy(plain, tree / "named")
    (tree / "twice").hardlink_to(tree / "named")
    (tree / "link").symlink_to("one")
    (tree / "text").write_text("text")
    fix(plain, "-o", tree / "whole")
    run("gcc", tmp_path / "main.c", "-c", "-o", tree / "object.o", check=True)
    printed = fix("--dry-run", tmp_path / "tree").splitlines()
    assert printed[0].split() == ["COVERED", "TEXT", "WINDOWS", "EXECUTABLE", "LEVEL", "RUNNING", "FILE"]
    assert printed[1].split()[2:5] == ["2.9", "MiB", "+1"]
    assert [line.split()[-2:] for line in printed[1:3]] == [["--", f"{tree}/named"], ["--", f"{tree}/one"]]
    assert printed[3:] == ["2 files would gain 2 windows of 2.0 MiB"]
    files = json_of("fix-report-1", "--dry-run", tmp_path / "tree")["files"]
    assert [file["path"] for file in files] == [f"{tree}/named", f"{tree}/one"]
    for file in files:
        assert (file["windows"], file["processes"]) == (1, 0)
        assert (file["page_size"], file["level"]) == (PAGE, "shift")
        assert 0 < file["executable_bytes"] < PAGE - file["covered_bytes"]
    done = run(HUGEALIGN, "fix", "--dry-run", tmp_path / "no")
    assert (done.returncode, done.stderr) == (
        3,
        f"hugealign: error: {tmp_path}/no: {worded('file.unreadable', error='ENOENT')}\n",
    )
