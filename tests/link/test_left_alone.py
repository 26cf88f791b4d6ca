"""A link for hugealign that is left alone says so once, and HUGEALIGN_CHECK=error fails what `verify` fails."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.link.bulk import MAIN
from tests.support import HUGEALIGN, LLVM, PYTHON, Elf, need, need_compiler, run

LLD14, LLD19 = (f"-fuse-ld=lld -B{LLVM[name]}" for name in ("lld14", "lld19"))
FULL = "SECTIONS { . = 0x400000 + SIZEOF_HEADERS; .text : { *(.text*) } .data : { *(.data*) *(.rodata*) *(.bss*) } }\n"
INSERT = "SECTIONS { .mine : { KEEP(*(.mine)) BYTE(1) } } INSERT AFTER .data;\n"
#: Words of a link, and whether hugealign lays it out.
LINKS = {
    "gcc -fuse-ld=bfd": True,
    f"gcc {LLD19} -Wl,--rosegment": True,
    f"gcc {LLD14} -Wl,--rosegment": True,
    "gcc -fuse-ld=mold -Wl,--rosegment": True,
    "gcc -fuse-ld=gold -Wl,--no-rosegment": True,
    "gcc -fuse-ld=gold -Wl,--rosegment": False,
    f"gcc {LLD19} -Wl,--no-rosegment": False,
    f"gcc {LLD19} -Wl,-z,nolrodata-after-bss": True,
    "gcc -fuse-ld=bfd -Wl,-T,insert.ld": True,
    "gcc -fuse-ld=bfd -Wl,-dT,insert.ld": True,
    f"gcc {LLD19} -Wl,-dT,insert.ld": True,
    f"gcc {LLD19} -Wl,--default-script=insert.ld": True,
    f"gcc {LLD19} -Wl,-dT,full.ld": False,
    "gcc -fuse-ld=bfd -Wl,-T,nowhere.ld": None,  # which fails
    "gcc -fuse-ld=bfd -Wl,-Tdata=0x1000000": False,
    "gcc -fuse-ld=bfd -Wl,--unique": False,
    "gcc -fuse-ld=bfd -Wl,--verbose": False,
    "gcc -fuse-ld=bfd -z nosectionheader": False,  # which only newer ones know
    "gcc -fuse-ld=bfd -no-pie -Wl,-Ttext-segment=0x10001000": False,
    "gcc -fuse-ld=bfd -Wl,-z,notext": True,
}


@pytest.fixture
def work(tmp_path: Path, bulk: Path) -> Path:
    (tmp_path / "main.c").write_text(MAIN)
    (tmp_path / "full.ld").write_text(FULL)
    (tmp_path / "insert.ld").write_text(INSERT)
    (tmp_path / "bulk.o").symlink_to(bulk)
    run("gcc", "-c", "main.c", cwd=tmp_path, check=True)
    return tmp_path


def ours(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if line.startswith("hugealign: ")]


def fails(path: Path) -> bool:
    """Whether `verify` fails it."""
    return run(HUGEALIGN, "verify", "-q", path).returncode == 1


@pytest.mark.parametrize("words", LINKS)
def test_laid_out_or_said(words: str, work: Path) -> None:
    need_compiler(*words.split())
    command = (*words.split(), "main.o", "bulk.o", "-o", "out")
    plain = run(*command, cwd=work)
    done = {check: run(HUGEALIGN, *command, cwd=work, HUGEALIGN_CHECK=check) for check in ("off", "warn")}
    if plain.returncode:
        assert LINKS[words] is None
        assert {result.returncode for result in done.values()} == {plain.returncode}
        return
    assert {result.returncode for result in done.values()} == {0}
    program = run(work / "out").returncode
    run(*command, cwd=work, check=True)
    assert program == run(work / "out").returncode
    run(HUGEALIGN, *command, cwd=work, check=True)
    assert ours(done["off"].stderr) == []
    said = ours(done["warn"].stderr)
    assert len(said) == (not LINKS[words])
    assert all(line.startswith("hugealign: warning: out: linked without huge-page layout: ") for line in said)
    assert fails(work / "out") == (not LINKS[words])
    (work / "out").unlink()
    checked = run(HUGEALIGN, *command, cwd=work, HUGEALIGN_CHECK="error")
    assert (checked.returncode == 0) == bool(LINKS[words])
    assert (work / "out").exists() == bool(LINKS[words])
    assert [line.replace("error", "warning") for line in ours(checked.stderr)] == said


def test_text_relocations_of_a_link_that_is_laid_out(work: Path) -> None:
    (work / "tr.s").write_text(
        '.text\n.globl tr\ntr: ret\n.balign 8\n.quad tr\n.section .note.GNU-stack,"",@progbits\n'
    )
    run("gcc", "-c", "tr.s", cwd=work, check=True)
    command = (HUGEALIGN, "gcc", "main.o", "bulk.o", "tr.o", "-Wl,-z,notext", "-o", "out")
    done = run(*command, cwd=work)
    assert (done.returncode, ours(done.stderr)) == (0, [])
    assert Elf(work / "out").faults() == []
    done = run(*command, cwd=work, HUGEALIGN_CHECK="error")
    assert done.returncode != 0
    (line,) = ours(done.stderr)
    assert line.startswith("hugealign: error: out: ")
    assert "[HA010]" in line
    assert not (work / "out").exists()


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("gcc -r -nostdlib", {}),
        ("gcc -nostdlib -Wl,--oformat=binary", {}),
        ("gcc", {"HUGEALIGN_SKIP": "out"}),
        ("gcc", {"HUGEALIGN_ONLY": "other"}),
        ("gcc", {"HUGEALIGN_DISABLE": "1"}),
    ],
)
def test_what_is_not_to_be_checked(words: str, settings: dict[str, Any], work: Path) -> None:
    """What is not a program, and what the user has left out."""
    done = run(
        HUGEALIGN, *words.split(), "main.o", "bulk.o", "-o", "out", cwd=work, HUGEALIGN_CHECK="error", **settings
    )
    assert (done.returncode, ours(done.stderr)) == (0, [])


def test_a_small_program_is_not_worth_a_word(work: Path) -> None:
    (work / "small.c").write_text("int main(void) { return 0; }\n")
    for words in ("small.c", "small.c -Wl,--unique", "small.c -Wl,-Tdata=0x1000000"):
        command = (HUGEALIGN, "gcc", *words.split(), "-o", "out")
        for check in ("warn", "error"):
            done = run(*command, cwd=work, HUGEALIGN_CHECK=check)
            assert (done.returncode, ours(done.stderr)) == (0, []), words


def test_a_link_that_cannot_be_repeated_is_checked(work: Path) -> None:
    command = f'cat bulk.o | "{HUGEALIGN}" gcc main.o /dev/stdin -o out'
    assert run("bash", "-o", "pipefail", "-c", command, cwd=work, HUGEALIGN_CHECK="error").returncode != 0
    assert not (work / "out").exists()


PAGES = ("-Wl,-zcommon-page-size=2097152 -Wl,-zmax-page-size=2097152", "-Wl,-z,common-page-size=65536")


@pytest.mark.parametrize("kind", ["-pie", "-no-pie", "-static", "-shared -fPIC"])
@pytest.mark.parametrize("pages", PAGES)
@pytest.mark.parametrize("linker", ["-fuse-ld=bfd", "-fuse-ld=gold", "-fuse-ld=mold", LLD14, LLD19])
def test_a_common_page_size(linker: str, pages: str, kind: str, work: Path) -> None:
    """PHP's configure requests pages of 2 MiB by both options, as do most guides to huge text."""
    need_compiler("gcc", *linker.split())
    command = ("gcc", *linker.split(), *kind.split(), *pages.split(), "main.c", "bulk.o", "-o")
    plain = run(*command, "plain", cwd=work, check=True)
    done = run(HUGEALIGN, *command, "out", cwd=work, check=True)
    assert Elf(work / "out").lacks(Elf(work / "plain")) == []
    if linker != LLD14:
        assert done.stderr == plain.stderr
        assert Elf(work / "out").faults(exact="gold" not in linker) == []
    elif Elf(work / "out").faults():  # its RELRO would end behind the memory: its own link is kept
        (line,) = ours(done.stderr)
        assert "linked without huge-page layout, because with it RELRO ends at " in line
        assert (work / "out").read_bytes() == (work / "plain").read_bytes()
    if "-shared" not in kind:
        assert run(work / "out").returncode == run(work / "plain").returncode


def test_page_sizes_that_contradict_each_other(work: Path) -> None:
    """GNU ld refuses a common page size above the largest; ours would hide that."""
    pages = "-Wl,-z,common-page-size=65536,-z,max-page-size=4096"
    words = ("gcc", "-fuse-ld=bfd", pages, "main.o", "bulk.o", "-o", "out")
    plain, done = run(*words, cwd=work), run(HUGEALIGN, *words, cwd=work)
    assert plain.returncode != 0
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)


@pytest.mark.parametrize("script", ["INPUT(bulk.o)", "/* GNU ld script */\nGROUP ( libreal.a )", "INPUT(-lreal)"])
@pytest.mark.parametrize("way", ["-L. -lbig", "./libbig.so", "-L. -l:libbig.so", "big.ld"])
def test_inputs_that_a_script_names(way: str, script: str, work: Path) -> None:
    run("ar", "rc", "libreal.a", "bulk.o", cwd=work, check=True)
    for name in ("libbig.so", "big.ld"):
        (work / name).write_text(script)
    run(HUGEALIGN, "gcc", "main.o", "-L.", *way.split(), "-o", "out", cwd=work, check=True)
    assert Elf(work / "out").faults() == []


# --- compilers that are their own linker -------------------------------------------------------------------------


def tcc(work: Path, name: str, front: str) -> str:
    """Return the word for tcc in a guise: its own name, a link, or a script."""
    need("tcc")
    path = shutil.which("tcc")
    (work / "bin").mkdir()
    if front == "script":
        (work / "bin" / name).write_text(f'#!/bin/sh\nexec {path} "$@"\n')
        (work / "bin" / name).chmod(0o755)
    else:
        (work / "bin" / name).symlink_to(path or "")
    return str(work / "bin" / name)


@pytest.mark.parametrize(
    ("name", "front"),
    [("tcc", "link"), ("cc", "link"), ("mine-cc", "link"), ("c99", "link"), ("cc", "script"), ("my", "script")],
)
def test_tcc_by_any_name(name: str, front: str, work: Path) -> None:
    compiler = tcc(work, name, front)
    (work / "hi.c").write_text('#include <stddef.h>\n#include <stdio.h>\nint main(void) { puts("hi"); return 0; }\n')
    order = work / "order"
    order.write_text("# hugealign.order/1\nmain\n")
    for words in ("hi.c -o hi", "-c hi.c -o hi.o"):
        for profile in ("", str(order) if front == "link" else ""):
            plain = run(compiler, *words.split(), cwd=work, check=True)
            done = run(HUGEALIGN, compiler, *words.split(), cwd=work, HUGEALIGN_PROFILE=profile)
            assert (done.returncode, done.stderr) == (0, plain.stderr), (words, profile)
    assert run(work / "hi").stdout == "hi\n"
    done = run(HUGEALIGN, compiler, "hi.c", "-o", "hi", cwd=work, HUGEALIGN_DEBUG="1", check=True)
    assert "hugealign: debug: left alone: " in done.stderr


@pytest.fixture
def large(work: Path) -> Path:
    """An object that tcc links."""
    (work / "code.s").write_text(".text\n.globl code\ncode: ret\n.fill 3000000, 1, 0x90\n")
    (work / "call.c").write_text("void code(void); int main(void) { code(); return 0; }\n")
    run("gcc", "-c", "code.s", cwd=work, check=True)
    return work


@pytest.mark.parametrize(("name", "front"), [("tcc", "link"), ("cc", "link"), ("my", "script")])
def test_what_tcc_links_is_said(name: str, front: str, large: Path) -> None:
    command = (HUGEALIGN, tcc(large, name, front), "call.c", "code.o", "-o", "out")
    done = run(*command, cwd=large)
    assert done.returncode == 0
    (line,) = ours(done.stderr)
    assert line.startswith(f"hugealign: warning: {name}: linked without hugealign, because it ")
    assert fails(large / "out")
    checked = run(*command, cwd=large, HUGEALIGN_CHECK="error")
    assert (checked.returncode, ours(checked.stderr)) == (1, [line.replace("warning", "error", 1)])
    assert not (large / "out").exists()
    assert ours(run(*command, cwd=large, HUGEALIGN_CHECK="off").stderr) == []
    # What it does not link is not looked at, nor what was there before.
    shutil.copy(PYTHON, large / "a.out")
    (large / "none.c").write_text("int main(void) { return 0; }\n")
    assert run(HUGEALIGN, large / "bin" / name, "-run", "none.c", cwd=large, HUGEALIGN_CHECK="error").returncode == 0
    assert (large / "a.out").exists()


@pytest.mark.parametrize("front", ["", "env A=1 "])
def test_what_zig_links_is_said(front: str, large: Path) -> None:
    """By a stub: zig takes 200 MB."""
    (large / "zig").write_text('#!/bin/sh\n[ "$1" = cc ] || exit 9\nshift\nexec gcc -B/usr/bin "$@"\n')
    (large / "zig").chmod(0o755)
    words = (*front.split(), large / "zig", "cc", "call.c", "code.o", "-o", "out")
    done = run(HUGEALIGN, *words, cwd=large)
    assert (done.returncode, len(ours(done.stderr))) == (0, 1)
    assert "zig: linked without hugealign, because it is its own linker; " in done.stderr
    assert run(HUGEALIGN, *words, cwd=large, HUGEALIGN_CHECK="error").returncode == 1


# --- what is not a compiler --------------------------------------------------------------------------------------

#: A build, or the compiler of another language, which calls one of C.
BUILDS = """
    make ninja cmake go ghc ghc-9.4 ocamlopt ocamlfind nim valac cobc dmd dub gnatmake gprbuild swiftc crystal cabal
    stack dune pip sh
    """


@pytest.mark.parametrize("name", BUILDS.split())
@pytest.mark.parametrize("words", [("one.x",), ("-o", "one", "one.c"), ("-c", "one.c")])
def test_wrong_use(words: tuple[str, ...], name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("#!/bin/sh\necho started\n")
    (tmp_path / name).chmod(0o755)
    done = run(HUGEALIGN, tmp_path / name, *words, cwd=tmp_path)
    message = f"hugealign: error: {name}: not a compiler; did you mean: hugealign build -- {name} ...\n"
    assert (done.returncode, done.stdout, done.stderr) == (125, "", message)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("cargo", "did you mean: RUSTFLAGS=-Clinker=hugealign-cc cargo ..."),
        ("rustc", "did you mean: rustc -Clinker=hugealign-cc ..."),
        ("ld", "link with one: hugealign gcc ..."),
        ("zig", "zig links by itself"),
        ("configure", "CC=hugealign-gcc ..."),
    ],
)
def test_wrong_use_that_has_an_answer_of_its_own(name: str, what: str, tmp_path: Path) -> None:
    done = run(HUGEALIGN, tmp_path / name, "x", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (125, "", 1)
    assert done.stderr.startswith(f"hugealign: error: {name}: not a compiler; ")
    assert what in done.stderr


def test_a_program_that_no_list_names(work: Path) -> None:
    """It gets no word of ours; a C compiler that it calls finds the shims."""
    (work / "fortress.c").write_text(
        "#include <unistd.h>\n#include <string.h>\nint main(int n, char **w) {\n"
        'for (int i = 1; i < n; i++) if (!strncmp(w[i], "-B", 2) || !strncmp(w[i], "-f", 2)) return 7;\n'
        'return execlp("gcc", "gcc", "main.o", "bulk.o", "-o", "out", (char *)0); }\n'
    )
    run("gcc", "fortress.c", "-o", "fortress", cwd=work, check=True)
    (work / "order").write_text("# hugealign.order/1\nmain\n")
    run(HUGEALIGN, "./fortress", "one.fortress", cwd=work, check=True, HUGEALIGN_PROFILE=str(work / "order"))
    assert Elf(work / "out").faults() == []
