"""Links that hugealign leaves alone are byte-identical to the plain ones, and say so in one line."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import HUGEALIGN, Elf, run

FULL_SCRIPT = """
ENTRY(_start)
SECTIONS { . = 0x400000 + SIZEOF_HEADERS; .text : { *(.text*) } .data : { *(.data*) } .bss : { *(.bss*) } }
"""
PHDRS_SCRIPT = """
ENTRY(_start)
PHDRS { text PT_LOAD FILEHDR PHDRS FLAGS(5); data PT_LOAD FLAGS(6); }
SECTIONS { . = 0x400000 + SIZEOF_HEADERS; .text : { *(.text*) } :text
  .eh_frame : { *(.eh_frame) } :data /DISCARD/ : { *(.note*) } }
"""
INSERT_SCRIPT = "SECTIONS { .user.code : { KEEP(*(.user.code)) } } INSERT AFTER .fini;\n"
START = (
    "__attribute__((force_align_arg_pointer)) void _start(void)"
    ' { unsigned big_sum(void); big_sum(); __asm__ volatile("mov $60, %eax; xor %edi, %edi; syscall"); }\n'
)


@pytest.fixture
def start(tmp_path: Path) -> Path:
    """An object with a _start of its own, for -nostdlib."""
    (tmp_path / "start.c").write_text(START)
    target = tmp_path / "start.o"
    run("gcc", "-O1", "-fno-stack-protector", "-c", tmp_path / "start.c", "-o", target, check=True)
    return target


def same(tmp_path: Path, *words: str | Path, lines: int = 1, **settings: Any) -> Path:
    """Link both ways, assert that nothing differs but *lines* of ours, and return the output."""
    outputs = []
    for name, prefix in (("plain", []), ("wrapped", [HUGEALIGN])):
        (tmp_path / name).mkdir(exist_ok=True)
        output = tmp_path / name / "out"
        done = run(*prefix, "gcc", *words, "-o", output, **settings)
        printed = done.stderr.splitlines()
        ours = [line for line in printed if line.startswith(f"hugealign: warning: {output}: linked without huge-page")]
        assert len(ours) == (lines if prefix else 0)
        stderr = [line for line in printed if line not in ours]
        outputs.append((done.returncode, done.stdout, stderr, output.read_bytes() if output.exists() else None))
    assert outputs[0][:3] == outputs[1][:3]
    assert outputs[0][3] == outputs[1][3]
    assert outputs[0][0] == 0
    return output


@pytest.mark.parametrize("word", ["-r", "-Wl,-r", "-Wl,-i", "-Wl,--relocatable"])
def test_relocatable(word: str, start: Path, bulk: Path, tmp_path: Path) -> None:
    output = same(tmp_path, "-no-pie", "-nostdlib", word, start, bulk, lines=0)
    assert Elf(output).type == "ET_REL"


@pytest.mark.parametrize(
    "form", ["-T {}", "-T{}", "-Wl,-T,{}", "-Wl,--script={}", "-Wl,--script,{}", "-Xlinker -T -Xlinker {}"]
)
@pytest.mark.parametrize("script", [FULL_SCRIPT, PHDRS_SCRIPT], ids=["SECTIONS", "PHDRS"])
def test_full_script_of_the_user(form: str, script: str, start: Path, bulk: Path, tmp_path: Path) -> None:
    (tmp_path / "user.ld").write_text(script)
    words = form.format(tmp_path / "user.ld").split()
    output = same(tmp_path, "-nostdlib", "-static", "-Wl,--no-warn-rwx-segments", *words, start, bulk)
    if script == FULL_SCRIPT:
        assert run(output).returncode == 0


@pytest.mark.parametrize("word", ["-Wl,-N", "-Wl,-n", "-Wl,--omagic", "-Wl,--nmagic"])
def test_unpaged_text(word: str, start: Path, bulk: Path, tmp_path: Path) -> None:
    output = same(tmp_path, "-nostdlib", "-static", "-Wl,--no-warn-rwx-segments", word, start, bulk)
    assert run(output).returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ("-Wl,-Ttext=0x10000000",),
        ("-Wl,-Ttext,0x10000000",),
        ("-Wl,--section-start=.text=0x10000000",),
        ("-Wl,-Ttext-segment=0x10001000",),
    ],
)
def test_addresses_of_the_user(words: tuple[str, ...], main: Path, bulk: Path, tmp_path: Path) -> None:
    output = same(tmp_path, "-no-pie", *words, main, bulk)
    assert run(output).returncode == 0


def test_base_on_a_window_is_laid_out(main: Path, bulk: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    run(HUGEALIGN, "gcc", "-no-pie", "-Wl,-Ttext-segment=0x10000000", main, bulk, "-o", output, check=True)
    elf = Elf(output)
    assert elf.faults() == []
    assert elf.loads[0]["p_vaddr"] == 0x10000000


def test_other_output_format(start: Path, bulk: Path, tmp_path: Path) -> None:
    same(tmp_path, "-nostdlib", "-static", "-Wl,--oformat=binary", start, bulk, lines=0)


def test_32_bit_target(tmp_path: Path) -> None:
    (tmp_path / "small.s").write_text(".globl _start\n_start: hlt\n .fill 400000, 1, 0x90\n")
    run("as", "--32", tmp_path / "small.s", "-o", tmp_path / "small.o", check=True)
    output = same(tmp_path, "-m32", "-nostdlib", "-static", tmp_path / "small.o")
    assert output.read_bytes()[4] == 1


@pytest.mark.parametrize("order", [0, 1])
def test_insert_script_of_the_user_is_no_hindrance(order: int, bulk: Path, tmp_path: Path) -> None:
    (tmp_path / "user.ld").write_text(INSERT_SCRIPT)
    source = tmp_path / "main.c"
    source.write_text(
        '__attribute__((section(".user.code"))) int placed(void) { return 0; }\n'
        "unsigned big_sum(void); int main(void) { return placed() || big_sum() != 3000u * 2999u / 2u; }\n"
    )
    output = tmp_path / "out"
    script = f"-Wl,-T,{tmp_path / 'user.ld'}"
    words = [script, source, bulk] if order == 0 else [source, bulk, script]
    done = run(HUGEALIGN, "gcc", *words, "-o", output, check=True)
    assert done.stderr == ""
    elf = Elf(output)
    assert elf.faults() == []
    assert ".user.code" in elf.sections
    assert run(output).returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ("-Wl,-z,max-page-size=4096",),
        ("-Wl,-z,noseparate-code",),
        ("-Wl,-z,max-page-size=0x10000", "-Wl,-z,common-page-size=4096"),
        ("-Wl,-z,now", "-Wl,-z,relro"),
        ("-Wl,--gc-sections", "-Wl,--print-gc-sections"),
        ("-Wl,--orphan-handling=warn",),
        ("-Wl,--fatal-warnings",),
        ("-rdynamic",),
        ("-Wl,--emit-relocs",),
        ("-fcf-protection", "-Wl,-z,ibtplt"),
        ("-Wl,-z,norelro",),
        ("-g", "-Wl,--compress-debug-sections=zlib"),
    ],
    ids=" ".join,
)
def test_options_of_the_user_keep_their_meaning_and_the_layout_is_ours(
    words: tuple[str, ...], main: Path, bulk: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    plain = run("gcc", *words, main, bulk, "-o", output)
    done = run(HUGEALIGN, "gcc", *words, main, bulk, "-o", output)
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert Elf(output).faults() == []
    assert run(output).returncode == 0


def test_version_script_does_not_export_the_pad(bulk: Path, tmp_path: Path) -> None:
    (tmp_path / "map").write_text("V1 { global: big_sum; local: *; };\n")
    output = tmp_path / "libout.so"
    run(HUGEALIGN, "gcc", "-shared", bulk, f"-Wl,--version-script={tmp_path / 'map'}", "-o", output, check=True)
    assert Elf(output).faults() == []
    symbols = run("nm", "-D", "--defined-only", output).stdout
    assert sorted(line.split()[-1] for line in symbols.splitlines()) == ["V1", "big_sum@@V1"]


def test_only_and_skip(main: Path, bulk: Path, tmp_path: Path) -> None:
    def laid_out(name: str, **settings: Any) -> bool:
        done = run(HUGEALIGN, "gcc", main, bulk, "-o", tmp_path / name, check=True, **settings)
        assert done.stderr == ""
        return Elf(tmp_path / name).faults() == []

    assert laid_out("mysqld", HUGEALIGN_ONLY="mysqld:lib*.so")
    assert laid_out("libx.so", HUGEALIGN_ONLY="mysqld:lib*.so")
    assert not laid_out("tool", HUGEALIGN_ONLY="mysqld:lib*.so")
    assert not laid_out("tool", HUGEALIGN_SKIP="t*")
    assert laid_out("server", HUGEALIGN_SKIP="t*")
    assert not laid_out("server", HUGEALIGN_SKIP=f"{tmp_path}/*")
    assert not laid_out("server", HUGEALIGN_ONLY="server", HUGEALIGN_SKIP="server")
    assert laid_out("server", HUGEALIGN_ONLY="", HUGEALIGN_SKIP="")
