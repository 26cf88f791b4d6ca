"""Links that hugealign would change for the worse get the plain link, and say why where that is requested."""

import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from hugealign.link import options
from tests.link.bulk import MAIN
from tests.support import HUGEALIGN, LLVM, MORE_OF_A_LINK, Elf, environment, need, need_compiler, run

LINKERS = {
    "bfd": "gcc -fuse-ld=bfd",
    "gold": "gcc -fuse-ld=gold",
    "mold": "gcc -fuse-ld=mold",
    "lld14": f"gcc -fuse-ld=lld -B{LLVM['lld14']}",
    "lld19": f"gcc -fuse-ld=lld -B{LLVM['lld19']}",
}
#: A program whose result rests on each kind of its memory.
MEMORY = r"""
#include <stdio.h>
int data[3] = {1, 2, 3}, zero[100000];
_Thread_local int thread = 7;
const char *volatile words[] = {"a", "b"};
unsigned big_sum(void);
int main(int count, char **v) {
    thread += count;
    printf("%d %d %d %s %u\n", data[1], zero[count], thread, words[count & 1], big_sum());
    return 0;
}
"""
#: A user's script that collects two functions and checks where they lie.
FAST_SCRIPT = """
SECTIONS { .fast : { fast_start = .; *(.text.one) *(.text.two) *(.text.same) fast_end = .; } } INSERT BEFORE .text;
"""
FAST = """
extern char fast_start[], fast_end[];
unsigned big_sum(void);
int a(int), b(int);
__attribute__((noinline)) int one(int x) { return x * 3; }
__attribute__((noinline)) int two(int x) { return x * 5; }
int main(void) {
    int there = (char *)one >= fast_start && (char *)one < fast_end;
    return big_sum() && one(1) + two(1) == 8 && there && a(1) && b(1) ? 0 : 1;
}
"""
#: Local functions of one name: lld for x86-64 gets a script for these.
SAME = """
extern char fast_start[], fast_end[];
__attribute__((noinline)) static int same(int x) { return x * %d; }
int %s(int x) { return same(x) && (char *)same >= fast_start && (char *)same < fast_end; }
"""
BOARD_SCRIPT = """
%s
ENTRY(_start)
SECTIONS
{
  . = 0x10000000;
  .text : { *(.text .text.*) }
  .fini : { KEEP(*(.fini)) }
  .rodata : { *(.rodata .rodata.*) }
  . = ALIGN(0x1000);
  .data : { *(.data .data.*) }
  .bss : { *(.bss .bss.*) }
  /DISCARD/ : { *(.note.gnu.property) *(.comment) *(.eh_frame) }
}
"""


@pytest.fixture
def work(bulk: Path, tmp_path: Path) -> Path:
    (tmp_path / "main.c").write_text(MAIN)
    (tmp_path / "memory.c").write_text(MEMORY)
    run("gcc", "-ffunction-sections", "-c", "main.c", "memory.c", cwd=tmp_path, check=True)
    (tmp_path / "bulk.o").symlink_to(bulk)
    return tmp_path


def both(work: Path, words: str, **settings: str) -> tuple[Path, Path, str]:
    """Link plainly and with hugealign; return both programs, and what hugealign said."""
    command = shlex.split(words)
    need_compiler(*command)
    if run(*command, "-o", "plain", cwd=work).returncode:
        pytest.skip("not without hugealign either")
    done = run(HUGEALIGN, *command, "-o", "ours", cwd=work, check=True, env=environment(**settings))
    return work / "plain", work / "ours", done.stderr


@pytest.mark.parametrize("mode", ["-pie", "-no-pie"])
@pytest.mark.parametrize("option", ["-Tdata", "-Tbss", "--section-start=.data"])
@pytest.mark.parametrize("linker", LINKERS)
def test_addresses_of_data(linker: str, option: str, mode: str, work: Path) -> None:
    for address in ("0x600000", "0x800000", "0xa01000"):
        words = f"{LINKERS[linker]} {mode} memory.o bulk.o -Wl,{option}={address}"
        plain, ours, printed = both(work, words, HUGEALIGN_DEBUG="1")
        results = [(done.returncode, done.stdout) for done in (run(plain), run(ours))]
        assert results[0] == results[1], address
        assert f"left alone: {option}={address}" in printed


@pytest.mark.parametrize("size", ["16384", "65536", "0x200000"])
@pytest.mark.parametrize("mode", ["-pie", "-no-pie", "-static"])
def test_common_page_size(mode: str, size: str, work: Path) -> None:
    """lld 14 bounds it by the maximum page, which hugealign would raise: RELRO would reach beyond the mapping."""
    words = f"{LINKERS['lld14']} {mode} main.o bulk.o -Wl,-z,common-page-size={size}"
    _, ours, _ = both(work, words)
    assert run(ours).returncode == 0


def test_a_program_that_would_not_start(work: Path) -> None:
    """The linker's output is looked at for what makes it not start; this one breaks what has a large alignment."""
    (work / "bin").mkdir()
    linker = work / "bin" / "ld.bfd"
    linker.write_text(
        '#!/bin/sh\n/usr/bin/ld.bfd "$@" || exit\n'
        'case " $* " in *max-page-size=0x200000*) ;; *) exit 0 ;; esac\n'
        'while [ "$1" != -o ]; do shift; done\n'
        # p_memsz of the last LOAD reaches over the end of the address space
        "python3 - \"$2\" <<'P'\nimport struct, sys\nf = open(sys.argv[1], 'r+b'); d = f.read(4096)\n"
        "at = max(a for a in range(64, 64 + 56 * d[56], 56) if d[a:a + 4] == bytes([1, 0, 0, 0]))\n"
        "f.seek(at + 40); f.write(struct.pack('<Q', 1 << 47))\nP\n"
    )
    linker.chmod(0o755)
    done = run(
        HUGEALIGN, "gcc", f"-B{work}/bin", "-fuse-ld=bfd", "main.o", "bulk.o", "-o", "ours", cwd=work, check=True
    )
    assert "linked without huge-page layout, because with it LOAD" in done.stderr
    assert "[HA029]" in done.stderr
    assert done.stderr.count("\n") == 1
    assert run(work / "ours").returncode == 0


@pytest.mark.parametrize("linker", ["bfd", "lld14", "lld19"])
def test_an_order_leaves_alone_what_a_script_of_the_user_asks_for(linker: str, work: Path) -> None:
    (work / "fast.ld").write_text(FAST_SCRIPT)
    (work / "fast.c").write_text(FAST)
    for name, factor in (("a", 7), ("b", 9)):
        (work / f"{name}.c").write_text(SAME % (factor, name))
    (work / "more.c").write_text("static int same(int x) { return x * 2; } int more(int x) { return same(x); }\n")
    names = ("fast", "a", "b", "more")
    run("gcc", "-O1", "-ffunction-sections", "-c", *(f"{name}.c" for name in names), cwd=work, check=True)
    (work / "order").write_text("# hugealign.order/1\none\ntwo\nsame\tfile=a.c\nmain\n")
    words = f"{LINKERS[linker]} {' '.join(f'{name}.o' for name in names)} bulk.o -Wl,-T,fast.ld"
    _, ours, printed = both(work, words, HUGEALIGN_PROFILE=str(work / "order"), HUGEALIGN_DEBUG="1")
    assert run(ours).returncode == 0
    assert "left alone" not in printed
    assert "hot functions placed" in printed


@pytest.mark.parametrize("linker", ["bfd", "lld14", "lld19"])
@pytest.mark.parametrize("section", [".plt", ".note.*", "*"])
def test_our_scripts_leave_alone_what_a_script_of_the_user_asks_for(section: str, linker: str, work: Path) -> None:
    statement = f"*({section})" if section != "*" else "*own.o(*)"
    (work / "own.c").write_text("int own(int x) { return x; }\n")
    (work / "own.ld").write_text(f"SECTIONS {{ .own : {{ {statement} }} }} INSERT AFTER .rodata;\n")
    run("gcc", "-c", "own.c", cwd=work, check=True)
    (work / "order").write_text("# hugealign.order/1\nmain\n")
    words = f"{LINKERS[linker]} main.o own.o bulk.o -Wl,-z,lazy -Wl,--build-id -Wl,-T,own.ld"
    settings = {"HUGEALIGN_PROFILE": str(work / "order"), "HUGEALIGN_DEBUG": "1"}
    plain, ours, printed = both(work, words, **settings)
    assert "left alone" not in printed
    assert "because with it" not in printed
    assert run(ours).returncode == run(plain).returncode == 0
    missing = set(Elf(ours).sections) ^ set(Elf(plain).sections)
    assert {name for name in missing if "hugealign" not in name and name != ".init"} == set()


@pytest.mark.parametrize("linker", ["bfd", "lld14", "lld19"])
def test_an_order_moves_nothing_within_a_section_of_the_user(linker: str, work: Path) -> None:
    """lld sorts by its list what a statement of the user's script has collected."""
    (work / "locked.ld").write_text("SECTIONS { .locked : { *(.locked) } } INSERT BEFORE .text;\n")
    names = ("first", "middle", "last")
    for name in names:
        (work / f"{name}.c").write_text(f'__attribute__((section(".locked"))) void {name}(void) {{}}\n')
    (work / "range.c").write_text(
        "void first(void), middle(void), last(void); unsigned big_sum(void);\n"
        "int main(void) { return !(big_sum() && (char *)first < (char *)middle && (char *)middle < (char *)last); }\n"
    )
    run("gcc", "-ffunction-sections", "-c", "range.c", *(f"{name}.c" for name in names), cwd=work, check=True)
    (work / "order").write_text("# hugealign.order/1\nlast\nmiddle\nmain\n")
    words = f"{LINKERS[linker]} {' '.join(f'{name}.o' for name in names)} range.o bulk.o -Wl,-T,locked.ld"
    _, ours, printed = both(work, words, HUGEALIGN_PROFILE=str(work / "order"), HUGEALIGN_DEBUG="1")
    assert run(ours).returncode == 0
    assert "1 of 3 hot functions placed" in printed


@pytest.fixture
def board(work: Path) -> Path:
    """With start.o, a program without a C library."""
    (work / "start.c").write_text(
        'void big_sum(void); __attribute__((section(".fini"), used)) void fini(void) {}\n'
        'int data = 42; void _start(void) { big_sum(); __asm__ volatile("syscall" : : "a"(60), "D"(data - 42)); }\n'
    )
    run("gcc", "-fno-pic", "-fno-stack-protector", "-c", "start.c", cwd=work, check=True)
    return work


@pytest.mark.parametrize("way", ["-Wl,-T,board.ld", "-Wl,-dT,board.ld", "board.ld"])
@pytest.mark.parametrize("words", ["", "/* do not INSERT AFTER .text */", 'ASSERT(1, "INSERT AFTER .text")'])
@pytest.mark.parametrize("linker", ["bfd", "lld14", "lld19"])
def test_a_full_script(linker: str, words: str, way: str, board: Path) -> None:
    (board / "board.ld").write_text(BOARD_SCRIPT % words)
    command = f"{LINKERS[linker]} -nostdlib -static -no-pie -Wl,--build-id=none {way} start.o bulk.o"
    plain, ours, printed = both(board, command, HUGEALIGN_DEBUG="1")
    assert plain.read_bytes() == ours.read_bytes()
    assert "left alone: " in printed


@pytest.mark.parametrize("way", ["-L. -lboard", "-L. -l:libboard.a", "./libboard.so", "./libboard.a", "-L. -lnested"])
@pytest.mark.parametrize("linker", ["bfd", "lld14", "lld19"])
def test_a_library_that_is_a_full_script(linker: str, way: str, board: Path) -> None:
    for name in ("libboard.so", "libboard.a"):
        (board / name).write_text(BOARD_SCRIPT % "")
    (board / "libnested.so").write_text(f"INCLUDE {board}/libboard.so\n")
    command = f"{LINKERS[linker]} -nostdlib -no-pie -Wl,--build-id=none start.o bulk.o {way}"
    plain, ours, printed = both(board, command, HUGEALIGN_DEBUG="1")
    assert plain.read_bytes() == ours.read_bytes()
    assert "left alone: the linker script " in printed


@pytest.mark.parametrize("linker", LINKERS)
def test_a_library_that_names_others_is_no_hindrance(linker: str, work: Path) -> None:
    (work / "own.c").write_text("int own(int x) { return x; }\n")
    run("gcc", "-fPIC", "-c", "own.c", cwd=work, check=True)
    run("ar", "rc", "libreal.a", "own.o", cwd=work, check=True)
    (work / "libown.so").write_text("/* GNU ld script */\nGROUP ( libreal.a AS_NEEDED ( -lm ) )\n")
    _, ours, printed = both(work, f"{LINKERS[linker]} main.o bulk.o -L. -lown", HUGEALIGN_DEBUG="1")
    assert "left alone" not in printed
    run(HUGEALIGN, "verify", ours, check=True)
    assert run(ours).returncode == 0


@pytest.mark.parametrize("linker", ["bfd", "lld14", "lld19"])
def test_an_order_leaves_alone_what_a_script_among_the_libraries_asks_for(linker: str, work: Path) -> None:
    (work / "libfast.so").write_text(FAST_SCRIPT)
    (work / "fast.c").write_text(FAST.replace(" && a(1) && b(1)", ""))
    run("gcc", "-O1", "-ffunction-sections", "-c", "fast.c", cwd=work, check=True)
    (work / "order").write_text("# hugealign.order/1\none\ntwo\nmain\n")
    words = f"{LINKERS[linker]} fast.o bulk.o -L. -lfast"
    plain, ours, printed = both(work, words, HUGEALIGN_PROFILE=str(work / "order"), HUGEALIGN_DEBUG="1")
    assert run(ours).returncode == run(plain).returncode == 0
    assert "left alone" not in printed


def test_a_step_that_writes_no_program_is_not_judged_by_an_old_file(work: Path) -> None:
    need("clang-19")
    run("clang-19", "-O1", "-flto=thin", "-c", "main.c", "-o", "thin.o", cwd=work, check=True)
    words = "clang-19 -flto=thin -fuse-ld=lld thin.o bulk.o -o program".split()
    run(*words, cwd=work, check=True)
    program = (work / "program").read_bytes()
    for option in ("-Wl,--thinlto-index-only=index", "-Wl,-plugin-opt=thinlto-index-only"):
        done = run(HUGEALIGN, *words, option, cwd=work, check=True, HUGEALIGN_CHECK="error")
        assert done.stderr == ""
        assert (work / "program").read_bytes() == program


@pytest.mark.parametrize("name", ["ld.bfd", "ld.strange"])
def test_a_linker_that_writes_nothing(name: str, work: Path) -> None:
    (work / "bin").mkdir()
    (work / "bin" / name).write_text("#!/bin/sh\ncase $* in --version) echo GNU ld ;; *) echo done ;; esac\n")
    (work / "bin" / name).chmod(0o755)
    (work / "ours").write_bytes(Path("/bin/true").read_bytes())
    before = (work / "ours").read_bytes()
    (shim,) = Path(HUGEALIGN).parents[1].glob("hugealign/libexec/ld.bfd")
    words = (shim, "main.o", "bulk.o", "-o", "ours")
    path = f"{work}/bin:{os.environ['PATH']}"
    if name == "ld.strange":
        (work / "bin" / "ld.bfd").symlink_to(name)
    done = run(*words, cwd=work, check=True, HUGEALIGN_CHECK="error", HUGEALIGN_DEBUG="1", PATH=path)
    assert done.stdout == "done\n"
    assert "left alone: the linker has written no program" in done.stderr
    assert (work / "ours").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("-shared main.o", "HUGEALIGN_MIN_TEXT"),
        ("main.o bulk.o -Wl,--no-rosegment -fuse-ld=mold", "--no-rosegment"),
        ("main.o bulk.o -Wl,-T,nowhere.ld", "nowhere.ld cannot be read"),
        ("main.o bulk.o -Wl,--unknown-option", "hugealign does not know it"),
        ("main.o bulk.o -Wl,--version", "nothing is linked"),
        ("-nostdlib -shared main.o", "HUGEALIGN_MIN_TEXT"),
    ],
)
def test_why_is_said_if_asked_for(words: str, reason: str, work: Path) -> None:
    command = (HUGEALIGN, "gcc", *words.split(), "-o", "ours")
    printed = run(*command, cwd=work, HUGEALIGN_DEBUG="1").stderr
    assert "hugealign: debug: ours: left alone: " in printed
    assert reason in printed
    # Without that, a line for what has text enough for windows.
    printed = run(*command, cwd=work).stderr
    assert [line for line in printed.splitlines() if line.startswith("hugealign: ")] == (
        [f"hugealign: warning: ours: linked without huge-page layout: --no-rosegment: {options.PLACES}{MORE_OF_A_LINK}"]
        if "rosegment" in words
        else []
    )


def test_the_warning_does_not_name_what_was_done(work: Path) -> None:
    (work / "fast.c").write_text('__attribute__((section(".fast"))) int fast(int x) { return x; }\n')
    run("gcc", "-c", "fast.c", cwd=work, check=True)
    (work / "fast.ld").write_text(
        "SECTIONS { .fast ALIGN(4096) : { *(.fast) . = ALIGN(4096); } } INSERT BEFORE .text;\n"
    )
    _, _, printed = both(work, f"{LINKERS['lld19']} main.o fast.o bulk.o -Wl,-T,fast.ld")
    assert "[HA003]" in printed
    assert "relink" not in printed
    explained = run(HUGEALIGN, *printed.strip().rpartition("hugealign ")[2].split(), check=True)
    assert "HA003" in explained.stdout


@pytest.mark.matrix  # it links a gigabyte
@pytest.mark.parametrize("warning", [False, True])
def test_the_warning_quotes_the_linkers_error(warning: bool, work: Path) -> None:
    """GNU ld names the function first and the reason behind it, and has warnings of its own before both."""
    (work / "other.s").write_text(".globl other\n.data\nother: .long 1\n")  # without .note.GNU-stack
    run("gcc", "-c", "other.s", cwd=work, check=True)
    words = f"gcc -fuse-ld=bfd main.o {'other.o' if warning else ''} bulk.o"
    _, ours, printed = both(work, words, HUGEALIGN_PAGE_SIZE="1G")
    (line,) = (line for line in printed.splitlines() if line.startswith("hugealign:"))
    assert "R_X86_64" in line.partition("the linker said: ")[2]
    assert run(ours).returncode == 0


@pytest.mark.parametrize("delay", [0.01, 0.03, 0.06, 0.1, 0.15])
@pytest.mark.parametrize("number", [signal.SIGPIPE, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_to_the_group(number: signal.Signals, delay: float, large: Path, tmp_path: Path) -> None:
    """It ends all of the link, and no part of it says anything, or goes on."""
    (tmp_path / "main.c").write_text(MAIN.replace("3000u * 2999u", "4500u * 4499u"))
    run("gcc", "-c", "main.c", cwd=tmp_path, check=True)
    with subprocess.Popen(
        [str(HUGEALIGN), "gcc", "main.o", str(large), "-o", "out"],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        time.sleep(delay)
        os.killpg(process.pid, number)
        _, printed = process.communicate()  # until the last of them has closed its end
    assert "hugealign" not in printed


@pytest.mark.matrix
def test_a_linker_in_the_guise_of_another_is_laid_out_or_it_is_said(work: Path) -> None:
    need("clang-19", "ld.lld-19")
    (work / "opt").mkdir()
    for name in ("ld", "real-ld"):
        (work / "opt" / name).write_text('#!/bin/sh\nexec /usr/bin/ld.bfd "$@"\n')
        (work / "opt" / name).chmod(0o755)
    (work / "words").write_text("-fuse-ld=lld-19\n")
    scripts = {
        "front": 'exec clang-19 -fuse-ld=lld-19 "$@"',
        "behind": 'exec clang-19 "$@" --ld-path=/usr/bin/ld.lld-19',
        "other": f'exec gcc -B{work}/opt "$@"',
    }
    for name, text in scripts.items():
        (work / name).write_text(f"#!/bin/sh\n{text}\n")
        (work / name).chmod(0o755)
    for words, laid_out in {
        "clang-19 -fuse-ld=lld-19": True,
        "clang-19 --ld-path=mold": True,
        "clang-19 --ld-path=ld.lld-19": True,
        "clang++-19 --ld-path=ld.lld-19": True,
        "clang-19 -fuse-ld=lld-19 -Weverything -Werror": True,
        "clang-19 @words": True,
        "ccache clang-19 -fuse-ld=lld-19": True,
        f"ccache gcc -B{work}/opt/../bin": True,
        "./front": True,
        "./behind": False,
        "./other": False,
        f"gcc -B{work}/opt": False,
        f"env gcc -B{work}/opt": False,
    }.items():
        done = run(HUGEALIGN, *words.split(), "main.o", "bulk.o", "-o", "ours", cwd=work, check=True)
        assert (Elf(work / "ours").faults() == []) == laid_out, words
        assert done.stderr.count("linked without hugealign, because") == (not laid_out), words
        assert run(work / "ours").returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        "clang-19 -fuse-ld=lld-77",
        "clang-14 -fuse-ld=lld-77",
        "clang-19 -fuse-ld=lld-24",
        "clang-19 --ld-path=nowhere",
        "clang-19 --ld-path=/nowhere/ld",
        "ccache clang-19 -fuse-ld=lld-77",
        "env clang-19 -fuse-ld=lld-77",
        "gcc -fuse-ld=lld-77",
    ],
)
def test_a_linker_that_does_not_exist(words: str, work: Path) -> None:
    """The driver says so, as it does without hugealign."""
    need(*(word for word in words.split() if word[0] != "-"))
    command = (*words.split(), "main.o", "bulk.o", "-o", "ours")
    plain, ours = run(*command, cwd=work), run(HUGEALIGN, *command, cwd=work)
    assert plain.returncode != 0
    assert (ours.returncode, ours.stderr) == (plain.returncode, plain.stderr)


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["clang.cfg", "x86_64-pc-linux-gnu.cfg", "x86_64-pc-linux-gnu-clang.cfg"])
def test_a_linker_that_a_configuration_file_chooses(name: str, work: Path) -> None:
    """clang reads such files beside it."""
    need("clang-19", "ld.lld-19", "ld.mold")
    compiler = work / "llvm" / "bin" / "clang-19"
    compiler.parent.mkdir(parents=True)
    shutil.copy(Path("/usr/bin/clang-19").resolve(), compiler)
    (work / "llvm" / "lib").symlink_to(Path(LLVM["lld19"]).parent / "lib")
    (compiler.parent / "clang").symlink_to("clang-19")
    (work / "bin").mkdir()
    (work / "bin" / "cc").symlink_to(compiler.parent / "clang")
    (work / "opt").mkdir()
    (work / "opt" / "ld").symlink_to("/usr/bin/ld.bfd")
    (work / "more.cfg").write_text("--ld-path=/usr/bin/ld.lld-19\n")
    (work / "own.ld").write_text("SECTIONS { .own : { *(.own) } } INSERT BEFORE .text;\n")
    for words in (
        "--ld-path=/usr/bin/ld.lld-19",
        "--ld-path=/usr/bin/ld.mold",
        "-fuse-ld=lld-19",
        f"-B{work}/opt",
        f"-Wl,-T,{work}/own.ld",
        f"@{work}/more.cfg",
    ):
        (compiler.parent / name).write_text(f"{words}\n")
        for driver in (compiler.parent / "clang", work / "bin" / "cc"):
            plain = run(driver, "main.o", "bulk.o", "-o", "plain", cwd=work, check=True)
            done = run(HUGEALIGN, driver, "main.o", "bulk.o", "-o", "ours", cwd=work, check=True)
            assert done.stderr == plain.stderr
            assert Elf(work / "ours").faults() == [], words
            assert run(work / "ours").returncode == 0
            comments = [run("readelf", "-p", ".comment", work / output).stdout for output in ("plain", "ours")]
            assert comments[0] == comments[1]
