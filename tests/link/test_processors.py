"""Every processor of the table but x86-64, by cross compilers, run under qemu-user: the plain link, and windows.

The table generates the tests: a row gets each linker that it names, each kind of output, an order, a fix and objects
that do not fit.  `test_aarch64.py` has more for aarch64.  `make test` links PIEs; the rest is ``make test-links``.
"""

import json
import re
import shutil
import struct
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from hugealign import orderfile
from hugealign.elf.machines import AARCH64, LOONGARCH64, MACHINES, X86_64, Machine
from hugealign.fixing.remedies import diagnose
from tests.link import newer
from tests.support import HUGEALIGN, LLVM, PAGE, Elf, environment, run, worded

WILD = newer.TARGET / newer.CARGO / "bin"
#: The words that make gcc use a linker; mold 1.10 and wild go by the name of ld for another target.
USE = {
    "bfd": (),
    "lld": ("-fuse-ld=lld", f"-B{LLVM['lld19']}"),
    "mold": ("-B/usr/libexec/mold",),
    "wild": (f"-B{WILD}",),
}
MODES = {"pie": ("-pie",), "no-pie": ("-no-pie",), "static": ("-static",), "static-pie": ("-static-pie",)}
#: What cannot be had without hugealign either.
CANNOT = {
    ("loongarch64-lld", "static"): "lld 19 makes static programs of this C library that crash",
    ("loongarch64-lld", "static-pie"): "lld 19 makes static programs of this C library that crash",
    ("riscv64", "static-pie"): "this C library has no rcrt1.o",
    ("ppc64le", "static-pie"): "this C library has no rcrt1.o",
    ("s390x", "static-pie"): "this C library has no rcrt1.o",
}
ROWS = [machine for machine in MACHINES.values() if machine not in (X86_64, AARCH64)]
FUNCTIONS = 2000
MOLD = newer.SUITES[0]
#: Functions of which each returns its number, in sections of their own; calls of them all, and bytes that never run.
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
_Thread_local unsigned sum = 1;
#define F(n) __attribute__((noinline)) unsigned f##n(unsigned x) { __asm__ volatile (""); return x + n; }
%s
__asm__ (".section .text.fill, \\"ax\\"\\n .globl fill\\n .hidden fill\\n fill: .space %d, 1\\n .previous");
extern char fill[] __attribute__((visibility("hidden")));
const void *volatile kept;
int main(int count, char **words) {
    kept = fill;
    %s
    char *text = malloc(64);
    snprintf(text, 64, "%%u %%d %%s", sum, count, words[count - 1]);
    puts(text);
    return count + 2;
}
"""


class Chain:
    """The compiler of a *machine*, its *linker*, and how its programs run."""

    def __init__(self, machine: Machine, linker: str) -> None:
        self.machine, self.linker, self.name = machine, linker, f"{machine.name}-{linker}"
        self.installed = machine is not LOONGARCH64 and linker != "wild"
        root = Path("/usr") / machine.triple
        if machine is LOONGARCH64:
            tree = newer.TARGET / newer.LOONGARCH / "root"
            root = tree / "usr" / machine.triple
            words = ["clang-19", f"--target={machine.triple}", f"--sysroot={tree}", f"-B{root}/lib"]
            words += [f"--gcc-install-dir={tree}/usr/lib/gcc-cross/{machine.triple}/14"]
            linkers = {"bfd": f"--ld-path={tree}/usr/bin/{machine.triple}-ld.bfd", "lld": "-fuse-ld=lld"}
            linkers["mold"] = f"--ld-path={newer.TARGET / MOLD}/bin/ld.mold"  # Debian 12's does not know the processor
            linkers["wild"] = f"--ld-path={WILD}/ld.wild"
            self.compile, self.qemu = (*words, "-isystem", f"{root}/include"), (tree / "usr/bin/qemu-loongarch64",)
            self.words: tuple[str, ...] = (*words, linkers.get(linker, ""))
        else:
            self.compile = (f"{machine.triple}-gcc",)
            self.words = (*self.compile, *USE[linker])
            self.qemu = (Path("/usr/bin") / f"qemu-{machine.name}",)
        self.run = (*self.qemu, "-L", root)

    def missing(self, mode: str = "") -> str | None:
        """Return why it cannot link *mode* here, None if it can."""
        name = self.machine.name
        for pair in ((name, mode), (self.name, mode)):
            if pair in CANNOT:
                return CANNOT[pair]
        loongarch = self.machine is LOONGARCH64
        needs = {
            newer.LOONGARCH: loongarch,
            MOLD: loongarch and self.linker == "mold",
            newer.CARGO: self.linker == "wild",
        }
        suites = [suite for suite, needed in needs.items() if needed]
        if reason := next(filter(None, map(newer.unavailable, suites)), None):
            return reason
        tools = [tool for tool in (self.compile[0], str(self.qemu[0])) if not shutil.which(tool)]
        return f"{tools[0]} is not installed" if tools else None

    def ran(self, program: Path) -> tuple[int, str]:
        """Return status and output of *program*, run twice with other arguments."""
        done = run(*self.run, program, "a", "b")
        return done.returncode, done.stdout


CHAINS = {chain.name: chain for m in ROWS for chain in (Chain(m, linker) for linker in m.linkers)}


def cases() -> list[ParameterSet]:
    """Return each chain with each of MODES; all but PIEs by installed tools are for ``make test-links``."""
    quick = {(name, "pie") for name, chain in CHAINS.items() if chain.installed}
    return [
        pytest.param(chain, mode, id=f"{name}-{mode}", marks=() if (name, mode) in quick else pytest.mark.matrix)
        for name, chain in CHAINS.items()
        for mode in MODES
    ]


def chains(linkers: tuple[str, ...] = tuple(USE)) -> list[ParameterSet]:
    """Return each chain with one of *linkers*; those that `newer` fetches are for ``make test-links``."""
    return [
        pytest.param(chain, id=name, marks=() if chain.installed else pytest.mark.matrix)
        for name, chain in CHAINS.items()
        if chain.linker in linkers
    ]


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Path]:
    return {("", 0): tmp_path_factory.mktemp("processors")}


def compiled(
    objects: dict[tuple[str, int], Path], chain: Chain, functions: int = FUNCTIONS, fill: int = 3 << 20
) -> Path:
    """The object of SOURCE for *chain* with so many functions; if they are many, with *fill* bytes of other text."""
    key = (chain.machine.name, functions + fill)
    if key not in objects:
        target = objects["", 0] / f"{chain.machine.name}{key[1]}.o"
        numbers = range(functions)
        definitions = "\n".join(f"F({n})" for n in numbers)
        calls = " ".join(f"sum += f{n}(sum);" for n in numbers)
        source = target.with_suffix(".c")
        source.write_text(SOURCE % (definitions, fill if functions == FUNCTIONS else 16, calls))
        run(*chain.compile, "-O1", "-fPIE", "-ffunction-sections", "-c", source, "-o", target, check=True)
        objects[key] = target
    return objects[key]


def linked(chain: Chain, target: Path, *words: object, least: str = "") -> tuple[Path, Path]:
    """Link plainly and with hugealign, in silence; return both files."""
    plain = target.with_name("plain")
    first = run(*chain.words, *words, "-o", plain)
    assert first.returncode == 0, first.stderr
    done = run(HUGEALIGN, *chain.words, *words, "-o", target, HUGEALIGN_MIN_TEXT=least)
    assert (done.returncode, done.stdout, done.stderr) == (0, first.stdout, first.stderr)
    return plain, target


@pytest.mark.parametrize(("chain", "mode"), cases())
def test_program(chain: Chain, mode: str, objects: dict[tuple[str, int], Path], tmp_path: Path) -> None:
    """Relaxation shrinks the text of a RISC-V object after its size was estimated; the pads are holes."""
    if reason := chain.missing(mode):
        pytest.skip(reason)
    least = "256K" if chain.machine is LOONGARCH64 else ""
    words = (*MODES[mode], compiled(objects, chain), "-Wl,--gc-sections")
    plain, program = linked(chain, tmp_path / "out", *words, least=least)
    elf = Elf(program)
    assert elf.faults(page=chain.machine.windows[0]) == []
    assert elf.lacks(Elf(plain)) == []
    assert not any(elf.pad())
    assert chain.ran(program) == chain.ran(plain) == (5, chain.ran(plain)[1])
    added = (program.stat().st_blocks - plain.stat().st_blocks) * 512
    assert added <= 256 << 10
    done = run(HUGEALIGN, "verify", program, "--min-text=256K")
    expected = {"HA012"} if mode == "static-pie" else set()
    assert (set(re.findall("HA[0-9]+", done.stdout)), "100 %" in done.stdout) == (expected, True)


@pytest.mark.parametrize("chain", [chain for chain in chains() if "loongarch64" in str(chain.id)])
def test_tail_below_the_threshold(chain: Chain, objects: dict[tuple[str, int], Path], tmp_path: Path) -> None:
    """33 MiB of text get one window, and the rest of the second takes no disk."""
    if reason := chain.missing():
        pytest.skip(reason)
    window = chain.machine.windows[0]
    plain, program = linked(chain, tmp_path / "out", compiled(objects, chain, fill=window + (1 << 20)))
    text = Elf(program).text[0]
    assert (text["p_vaddr"] % window, text["p_filesz"] // window) == (0, 1)
    assert chain.ran(program) == chain.ran(plain)
    assert (program.stat().st_blocks - plain.stat().st_blocks) * 512 <= 256 << 10


@pytest.mark.parametrize("chain", chains())
def test_shared_library(chain: Chain, tmp_path: Path) -> None:
    if reason := chain.missing():
        pytest.skip(reason)
    (tmp_path / "l.c").write_text(
        '__asm__ (".section .text.fill, \\"ax\\"\\n fill: .space 4800000, 1\\n .previous");\n'
        'extern char fill[] __attribute__((visibility("hidden")));\n'
        "const void *volatile kept; int big(int x) { kept = fill; return x + 1; }\n"
    )
    (tmp_path / "m.c").write_text("int big(int); int main(void) { return big(6); }\n")
    for name in ("l", "m"):
        run(*chain.compile, "-O1", "-fPIC", "-c", tmp_path / f"{name}.c", "-o", tmp_path / f"{name}.o", check=True)
    plain, library = linked(chain, tmp_path / "libl.so", "-shared", tmp_path / "l.o")
    assert Elf(library).faults(page=chain.machine.windows[0]) == []
    assert Elf(library).lacks(Elf(plain)) == []
    run(*chain.words, tmp_path / "m.o", library, f"-Wl,-rpath,{tmp_path}", "-o", tmp_path / "m", check=True)
    assert run(*chain.run, tmp_path / "m").returncode == 7


@pytest.mark.parametrize("chain", chains())
def test_small_is_the_plain_link(chain: Chain, objects: dict[tuple[str, int], Path], tmp_path: Path) -> None:
    if reason := chain.missing():
        pytest.skip(reason)
    plain, program = linked(chain, tmp_path / "out", compiled(objects, chain, 20))
    assert program.read_bytes() == plain.read_bytes()


@pytest.mark.parametrize("chain", chains())
def test_order(chain: Chain, objects: dict[tuple[str, int], Path], tmp_path: Path) -> None:
    """Functions from the other end of the text lie together, where the note says; the program is as before."""
    if reason := chain.missing():
        pytest.skip(reason)
    order = tmp_path / "o.order"
    order.write_text("# hugealign.order/1\nf1921\nf17\nf1800\n")
    settings = {"HUGEALIGN_PROFILE": str(order), "HUGEALIGN_DEBUG": "1", "HUGEALIGN_MIN_TEXT": "256K"}
    source = compiled(objects, chain)
    run(*chain.words, source, "-o", tmp_path / "plain", check=True)
    done = run(HUGEALIGN, *chain.words, source, "-o", tmp_path / "out", env=environment(**settings), check=True)
    assert "order: 3 of 3 hot functions placed" in done.stderr
    assert Elf(tmp_path / "out").faults(page=chain.machine.windows[0]) == []
    assert chain.ran(tmp_path / "out") == chain.ran(tmp_path / "plain")


@pytest.mark.parametrize("chain", chains(("bfd",)))
def test_commands(chain: Chain, objects: dict[tuple[str, int], Path], tmp_path: Path) -> None:
    """diff, map and order take the window of the file's processor, and this machine's TLB for no other."""
    if reason := chain.missing():
        pytest.skip(reason)
    words = ("-no-pie", compiled(objects, chain))
    plain, program = linked(chain, tmp_path / "out", *words, least="256K")
    window = chain.machine.windows[0]
    count = Elf(program).text[0]["p_filesz"] // window
    (pair,) = json.loads(run(HUGEALIGN, "diff", "--json", plain, program).stdout)["pairs"]
    assert (pair["verdict"], pair["new"]["page_size"]) == ("better", window)
    assert pair["old"]["coverage"]["windows"] < pair["new"]["coverage"]["windows"] == count
    symbols = run("nm", program).stdout.splitlines()
    address = next(line.split()[0] for line in symbols if line.endswith(" f1921"))
    profiles = {"symbols": "f1921\nf17\nf1800\n", "perf-addresses": f"7 \t{address} ({program})\n" * 100}
    for form, text in profiles.items():
        (tmp_path / form).write_text(text)
        done = run(
            HUGEALIGN, "order", f"--type={form}", tmp_path / form, "-b", program, "-o", tmp_path / f"{form}.order"
        )
        assert (done.returncode, done.stderr.count("\n")) == (0, 1), done
        assert f"calls in code of {chain.machine.name} are not read" in done.stderr
        assert "budget   7 windows: the default, because the program is for another processor" in done.stdout
        order = orderfile.load(str(tmp_path / f"{form}.order"))
        assert (order.header["page-size"], order.entries[0].window) == (str(window), 1)
        assert "f1921" in [entry.name for entry in order.entries]
    done = run(HUGEALIGN, "map", "--json", tmp_path / "symbols", "-b", program)
    assert json.loads(done.stdout)["page_size"] == window


@pytest.mark.parametrize("chain", chains(("bfd",)))
def test_fix(chain: Chain, objects: dict[tuple[str, int], Path], tmp_path: Path) -> None:
    """Edits of headers give a plain program windows; what moves code, and a big-endian file, are refused by name."""
    if reason := chain.missing():
        pytest.skip(reason)
    program = tmp_path / "plain"
    run(*chain.words, "-no-pie", compiled(objects, chain), "-Wl,-z,separate-code", "-o", program, check=True)
    page = "--page-size=1M"
    done = run(HUGEALIGN, "fix", "--level=shift", page, program, "-o", tmp_path / "fixed")
    if chain.machine.big:
        assert (done.returncode, worded("fix.other-processor", processor=chain.machine.name) in done.stderr) == (
            1,
            True,
        )
        result = diagnose(str(program), PAGE)  # of another processor than this machine's: no advice
        assert (result.code, result.remedy) == ("text.other-processor", None)
        return
    assert done.returncode == 0, done.stderr
    assert chain.ran(tmp_path / "fixed") == chain.ran(program)
    pie = tmp_path / "pie"
    run(*chain.words, "-pie", compiled(objects, chain), "-o", pie, check=True)
    refused = run(HUGEALIGN, "fix", "--level=separate", pie, "-o", tmp_path / "separated")
    assert refused.returncode
    assert not (tmp_path / "separated").exists()


#: An ABI other than the usual one: options, a line of assembly, and those bits of ``e_flags`` with their values.
OTHER_ABI = {
    "riscv64-bfd": (("-mabi=lp64", "-march=rv64imac"), "", 6, 0),  # soft float
    "ppc64le-bfd": ((), ".abiversion 1", 3, 1),
}


@pytest.mark.parametrize("name", OTHER_ABI)
def test_objects_of_two_abis(name: str, tmp_path: Path, objects: dict[tuple[str, int], Path]) -> None:
    """GNU ld refuses to mix them: the plain link's status and message, and one that is all of the other is laid out."""
    chain, (options, line, bits, value) = CHAINS[name], OTHER_ABI[name]
    if reason := chain.missing():
        pytest.skip(reason)
    usual, small, large = compiled(objects, chain), tmp_path / "s.o", tmp_path / "l.o"
    for path, size in ((small, 0), (large, 3000000)):
        source = path.with_suffix(".s")
        source.write_text(f"{line}\n.globl _start\n_start: nop\n.space {size}\n")
        run(*chain.compile, "-c", *options, source, "-o", path, check=True)
    for words in ((usual, small), (small, usual)):
        plain = run(*chain.words, *words, "-nostartfiles", "-o", tmp_path / "out")
        done = run(HUGEALIGN, *chain.words, *words, "-nostartfiles", "-o", tmp_path / "out")
        assert plain.returncode
        assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    _, program = linked(chain, tmp_path / "other", "-nostdlib", "-static", *options, large)
    assert Elf(program).faults() == []
    assert struct.unpack_from("<I", program.read_bytes(), 48)[0] & bits == value


@pytest.mark.parametrize("damage", ["other machine", "other byte order", "truncated", "no sections"])
@pytest.mark.parametrize("chain", chains(("bfd",)))
def test_damaged_objects(chain: Chain, damage: str, objects: dict[tuple[str, int], Path], tmp_path: Path) -> None:
    """The plain link's status and messages, whatever is wrong with an input."""
    if reason := chain.missing():
        pytest.skip(reason)
    good = compiled(objects, chain)
    data = bytearray(good.read_bytes())
    if damage == "other machine":
        data[18:20] = b"\0\x3e" if chain.machine.big else b"\x3e\0"
    elif damage == "other byte order":
        data[5] = 3 - data[5]
    elif damage == "truncated":
        del data[len(data) // 2 :]
    else:
        data[40:48] = bytes(8)
    bad = tmp_path / "bad.o"
    bad.write_bytes(data)
    for words in ((bad,), (good, bad)):
        plain = run(*chain.words, *words, "-o", tmp_path / "out", cwd=tmp_path)
        done = run(HUGEALIGN, *chain.words, *words, "-o", tmp_path / "out", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
        # GNU ld says how far its heap, whose place is random, reaches before it fails to get more.
        assert re.sub("total of [0-9]+", "", done.stderr) == re.sub("total of [0-9]+", "", plain.stderr)
