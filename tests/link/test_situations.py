"""The stranger links that real builds make, each over every linker: as the plain link in everything but the layout."""

import re
from pathlib import Path

import pytest

from hugealign.diagnosis.catalogue import REMEDIES
from tests.link.bulk import MAIN, bulk_object, bulk_source
from tests.support import HUGEALIGN, Elf, Toolchain, need, run

START = (
    '__asm__(".globl _start\\n_start: xor %ebp, %ebp; and $-16, %rsp; call big_sum; xor %edi, %edi; '
    'mov $60, %eax; syscall");\n'
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "main.c").write_text(MAIN)
    (tmp_path / "start.c").write_text(START)
    for name in ("main", "start"):
        run("gcc", "-c", tmp_path / f"{name}.c", "-o", tmp_path / f"{name}.o", check=True)
    return tmp_path


def level(text: str) -> list[str]:
    """Make names of temporary files and of the output the same, and leave out what is said of the pad itself."""
    text = re.sub(r"/tmp/\w+-?\w*\.o|/\w+/\w+\.\w+\.ltrans\w*|/plain|/out", "NAME", text)
    return [line for line in text.splitlines() if "/proc/self/fd/" not in line]


def complaint(stderr: str) -> str:
    """Return the first line of *stderr*, without the directories of what it names."""
    return f"{re.sub(r'/[^ ]*/', '', stderr.strip().splitlines()[0]):.100}"


def as_plain(toolchain: Toolchain, work: Path, *words: object, cxx: bool = False, runs: bool = True) -> Elf:
    """Link with and without hugealign; assert the same outcome and, for hugealign's output, the layout."""
    compiler = toolchain.cxx if cxx else toolchain.cc
    plain = run(compiler, *toolchain.flags, *words, "-o", work / "plain", cwd=work)
    if plain.returncode:
        pytest.skip(f"not without hugealign either: {complaint(plain.stderr)}")
    done = run(HUGEALIGN, compiler, *toolchain.flags, *words, "-o", work / "out", cwd=work)
    assert done.returncode == 0
    assert sorted(level(done.stdout)) == sorted(level(plain.stdout))  # mold's threads print in any order
    assert level(done.stderr) == level(plain.stderr)
    elf = Elf(work / "out")
    assert elf.faults(exact=toolchain.linker != "gold") == []
    assert elf.lacks(Elf(work / "plain")) == []
    if runs:
        expected, seen = run(work / "plain", cwd=work), run(work / "out", cwd=work)
        assert (seen.returncode, seen.stdout) == (expected.returncode, expected.stdout)
        if expected.returncode:
            pytest.skip(f"the program does not run without hugealign either: status {expected.returncode}")
    return elf


@pytest.mark.parametrize("mode", [("-static",), ("-static-pie",), ("-pie",), ("-no-pie",)], ids=" ".join)
def test_without_the_c_library(mode: tuple[str, ...], toolchain: Toolchain, work: Path, bulk: Path) -> None:
    """No .init, no .fini, nothing but our code."""
    as_plain(toolchain, work, "-nostdlib", *mode, "start.o", bulk)


def test_start_files_of_the_users_own(toolchain: Toolchain, work: Path, bulk: Path) -> None:
    as_plain(toolchain, work, "-nostartfiles", "-static", "start.o", bulk)


@pytest.mark.parametrize("handling", ["place", "warn", "error"])
def test_orphan_handling(handling: str, toolchain: Toolchain, work: Path, bulk: Path) -> None:
    """lld 14 calls every section an orphan once there is a script; then the plain link is done, and said."""
    words = (f"-Wl,--orphan-handling={handling}", "main.o", bulk)
    if toolchain.linker == "lld14" and handling != "place":
        if run(toolchain.cc, *toolchain.flags, *words, "-o", work / "plain", cwd=work).returncode:
            pytest.skip("not without hugealign either")
        done = run(HUGEALIGN, toolchain.cc, *toolchain.flags, *words, "-o", work / "out", cwd=work)
        assert done.returncode == 0
        assert run(work / "out").returncode == 0
        if handling == "error":
            assert "linked without huge-page layout" in done.stderr
        return
    as_plain(toolchain, work, *words)


def test_fatal_warnings(toolchain: Toolchain, work: Path, bulk: Path) -> None:
    as_plain(toolchain, work, "-Wl,--fatal-warnings", "main.o", bulk)


@pytest.mark.parametrize("option", ["-Wl,--gc-sections", "-Wl,--gc-sections,--print-gc-sections", "-Wl,--icf=all"])
def test_sections_that_go(option: str, toolchain: Toolchain, work: Path, bulk: Path) -> None:
    (work / "unused.c").write_text("int unused(void) { return 1; } int unused_too(void) { return 1; }\n")
    as_plain(toolchain, work, "-ffunction-sections", option, "main.o", "unused.c", bulk)


@pytest.mark.parametrize("size", ["exactly", "one more", "one less"])
def test_text_of_just_a_window(size: str, toolchain: Toolchain, work: Path) -> None:
    """The text is brought to 2 MiB, one byte more and one byte less by a filler of the right size."""
    code = bulk_object(work, 1900)
    (work / "main.c").write_text(MAIN.replace("3000u * 2999u", "1900u * 1899u"))

    def link(fill: int, name: str) -> Elf:
        (work / "fill.s").write_text(f'.text\n.fill {fill}, 1, 0x90\n.section .note.GNU-stack,"",@progbits\n')
        words = (toolchain.cc, *toolchain.flags, "main.c", "fill.s", code, "-o", name)
        done = run(HUGEALIGN, *words, cwd=work, HUGEALIGN_MIN_TEXT="0")
        assert (done.returncode, done.stderr) == (0, "")
        return Elf(work / name)

    first = link(0, "first")
    room = len(first.pad())
    fill = room + {"exactly": 0, "one more": 1, "one less": -1}[size]
    elf = link(max(fill, 0), "out")
    assert elf.faults(exact=toolchain.linker != "gold") == []
    assert run(work / "out").returncode == 0


def test_no_text_at_all(toolchain: Toolchain, work: Path) -> None:
    (work / "data.c").write_text("int data[100000] = {1};\n")
    words = ("-shared", "-nostdlib", "data.c")
    for name, wrap in (("plain", ()), ("out", (HUGEALIGN,))):
        run(*wrap, toolchain.cc, *toolchain.flags, *words, "-o", name, cwd=work, check=True, HUGEALIGN_MIN_TEXT="64K")
    assert (work / "plain").read_bytes() == (work / "out").read_bytes()


def test_split_stack(work: Path, bulk: Path) -> None:
    """gcc -fsplit-stack calls for gold by itself."""
    as_plain(Toolchain("gcc-gold", "gcc", ()), work, "-fsplit-stack", "main.c", bulk)


@pytest.mark.parametrize(
    "mode", [(), ("-static",), ("-static-pie",), ("-shared",)], ids=lambda m: " ".join(m) or "dynamic"
)
def test_musl(mode: tuple[str, ...], work: Path, bulk: Path) -> None:
    need("musl-gcc")
    words = ("-fPIC", *mode, bulk) if mode == ("-shared",) else (*mode, "main.c", bulk)
    as_plain(Toolchain("musl-bfd", "musl-gcc", ()), work, *words, runs=mode != ("-shared",))


@pytest.mark.parametrize(
    "options", [(), ("-g",), ("-g", "-gsplit-dwarf"), ("-g", "-gz")], ids=lambda o: " ".join(o) or "none"
)
def test_debug_information(options: tuple[str, ...], toolchain: Toolchain, work: Path, bulk: Path) -> None:
    elf = as_plain(toolchain, work, *options, "main.c", bulk)
    assert (".debug_info" in elf.sections) == bool(options)


def test_large_code_model_section(toolchain: Toolchain, work: Path, bulk: Path) -> None:
    """.ltext makes a second executable segment with some linkers; then the shortfall is said, and the program runs."""
    (work / "large.s").write_text(
        bulk_source(10).replace(".text\n", '.section .ltext,"axl",@progbits\n', 1).replace("big_sum", "small_sum")
    )
    words = (toolchain.cc, *toolchain.flags, "main.c", "large.s", bulk, "-o", "out")
    plain = run(*words, cwd=work)
    if plain.returncode:
        pytest.skip(f"not without hugealign either: {complaint(plain.stderr)}")
    done = run(HUGEALIGN, *words, cwd=work)
    assert done.returncode == 0
    assert run(work / "out").returncode == 0
    faults = Elf(work / "out").faults(exact=toolchain.linker != "gold")
    assert bool(faults) == ("hugealign: warning: " in done.stderr), (faults, done.stderr)


def test_read_only_data_of_large_alignment(toolchain: Toolchain, work: Path, bulk: Path) -> None:
    """gold has such data among the text and can pad only in steps of their alignment; what is left is said."""
    (work / "wide.c").write_text("const char wide[1 << 16] __attribute__((aligned(65536), used)) = {1};\n")
    if toolchain.linker != "gold":
        as_plain(toolchain, work, "main.o", "wide.c", bulk)
        return
    done = run(HUGEALIGN, toolchain.cc, *toolchain.flags, "main.o", "wide.c", bulk, "-o", "out", cwd=work)
    assert done.returncode == 0
    assert f"[HA004]; {REMEDIES['other-linker']}" in done.stderr
    assert run(work / "out").returncode == 0
