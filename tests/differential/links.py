"""Random lines of real linker options, each linked plainly and with hugealign; then both programs run.

By hand: ``python -m tests.differential.links --seed 7 --count 1000``.  It prints the seed, each difference with its
commands, and what became of the lines; the status is 1 if there was a difference.  ``--only N`` repeats one line.

The options come from the linkers' own ``--help``.  A line that does not link plainly is passed over and does not count.
The program prints what it finds in all its memory, so data that another segment lies over are seen.
"""

import argparse
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from hugealign.link.options import Z_EFFECTS
from tests.differential.options import Option, options
from tests.support import HUGEALIGN, LLVM, PAGE, Elf, environment

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define TEXT(name) __attribute__((noinline, section(".text." name)))
int data[3000] = {1, 2, 3}, zero[70000], *pointers[] = {data, zero, data + 2};
static const char *const words[] = {"alpha", "beta", "gamma"};
const unsigned table[600] = {7, 77, 777};
_Thread_local int counter = 41, fresh[20];
__attribute__((section("marked"), used)) int inside[2] = {5, 6};
extern int __start_marked[], __stop_marked[];
static int constructed;
__attribute__((constructor)) static void construct(void) { constructed = 4; }
__attribute__((destructor)) static void destruct(void) { fprintf(stderr, "destructed\n"); }
TEXT("one") int one(int x) { return x * 3; }
TEXT("two") int two(int x) { return x * 5; }
TEXT("hot.three") int three(int x) { return x * 7; }
int (*const calls[])(int) = {one, two, three};
extern int bulk(int);
__attribute__((weak)) int nowhere(void);
static unsigned sum(const void *start, size_t size) {
    unsigned total = 0;
    for (size_t at = 0; at < size; at++) total = total * 31 + ((const unsigned char *)start)[at];
    return total;
}
int run(void) {
    int same = __stop_marked - __start_marked == 2 && __start_marked[1] == 6;
    printf("%u %u %u ", sum(data, sizeof data), sum(zero, sizeof zero), sum(table, sizeof table));
    for (int i = 0; i < 3; i++) printf("%s %d %d ", words[i], *pointers[i], calls[i](i + 2));
    counter++, fresh[3]++, data[2999] = 9, zero[69999] = 8;
    printf("%d %d %d %d %d %d\n", counter, fresh[3], constructed, same, nowhere ? 1 : 0, bulk(6));
    printf("%u %u\n", sum(data, sizeof data), sum(zero, sizeof zero));
    char *more = malloc(300000);
    memset(more, 1, 300000);
    printf("%u %s\n", sum(more, 300000), getenv("DIFFERENTIAL"));
    return 0;
}
#ifndef SHARED
int main(void) { return run(); }
#endif
"""
DRIVER = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **words) {
    void *library = dlopen(words[count - 1], RTLD_NOW);
    int (*run)(void) = library ? (int (*)(void))dlsym(library, "run") : 0;
    if (!run) return puts("cannot be loaded"), 9;
    return run();
}
"""
#: Code that is never called, before and after what is, so that calls and addresses reach over all of it.
BULK = """
.text
.skip {size}, 0x90
.globl bulk
.type bulk, @function
bulk: lea 1(%rdi), %eax
ret
.size bulk, . - bulk
.skip {size}, 0x90
.section .note.GNU-stack,"",@progbits
"""
#: Where large inputs begin: the linker is started before Python has loaded.
SIZES = {"bulk.o": 400_000, "large.o": 2_200_000}
SCRIPTS = {
    "insert.ld": "SECTIONS { .own : { *(.text.one) *(.text.two) } } INSERT BEFORE .text;\n",
    "after.ld": "/* a comment */ SECTIONS { .own : { KEEP(*(marked_too)) } } INSERT AFTER .fini;\n",
    "symbols.ld": "PROVIDE(nobody = 1); EXTERN(run)\n",
}
ORDER = "# hugealign.order/1\nthree\none\nrun\nbulk\n"
FILES = {
    "version.map": "V1 { global: run; main; bulk; data; local: *; };\n",
    "dynamic.list": "{ run; data; };\n",
    "symbols.txt": "one\nrun\nmain\n_start\n",
    "sections.txt": ".text.two\n.text.one\n",
    "empty.txt": "",
}
_NUMBERS = ("0", "1", "2", "7", "64")
_ADDRESSES = ("0x400000", "0x600000", "0x800000", "0xa00000", "0xa01000", "0x10000000", "0x201000")
_PAGES = ("4096", "0x1000", "16384", "65536", "0x200000", "0x400000")
_SYMBOLS = ("run", "one", "nobody", "data")
#: Values for options whose help does not say enough: they have to be such that a linker can accept them.
VALUES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Tbss", "Tdata", "Ttext", "Ttext-segment", "Trodata-segment", "Tldata-segment"), _ADDRESSES),
    **dict.fromkeys(("image-base", "rosegment-gap"), _ADDRESSES),
    "section-start": tuple(f"{name}={at}" for name in (".data", ".bss", ".text", "marked") for at in _ADDRESSES[1:4]),
    **dict.fromkeys(("T", "script"), tuple(SCRIPTS)),
    **dict.fromkeys(("dT", "default-script"), ("symbols.ld",)),
    **dict.fromkeys(("u", "undefined", "require-defined", "y", "trace-symbol", "wrap", "keep-unique"), _SYMBOLS),
    **dict.fromkeys(("init", "fini", "export-dynamic-symbol", "ignore-unresolved-symbol", "undefined-glob"), _SYMBOLS),
    **dict.fromkeys(("e", "entry"), ("_start",)),
    **dict.fromkeys(("h", "soname"), ("libown.so.1",)),
    **dict.fromkeys(("rpath", "rpath-link", "R", "L", "library-path"), ("/nowhere", ".")),
    **dict.fromkeys(("l", "library"), ("m", "c")),
    **dict.fromkeys(("Map", "dependency-file", "print-archive-stats", "why-extract", "reproduce"), ("report",)),
    **dict.fromkeys(("print-symbol-counts", "time-trace", "time-trace-file", "print-symbol-order"), ("report",)),
    "version-script": ("version.map",),
    **dict.fromkeys(("dynamic-list", "export-dynamic-symbol-list"), ("dynamic.list",)),
    **dict.fromkeys(("symbol-ordering-file", "retain-symbols-file"), ("symbols.txt",)),
    "section-ordering-file": ("sections.txt",),
    **dict.fromkeys(("call-graph-ordering-file", "remap-inputs-file"), ("empty.txt",)),
    "defsym": ("nobody=4096", "nobody=run", "nobody=."),
    "hash-style": ("sysv", "gnu", "both"),
    "build-id": ("", "=md5", "=sha1", "=none", "=0x1234"),
    "compress-debug-sections": ("none", "zlib"),
    "O": _NUMBERS[:3],
    "orphan-handling": ("place", "warn", "discard", "error"),
    "sort-section": ("name", "alignment", "none"),
    "sort-common": ("", "=ascending", "=descending"),
    "unresolved-symbols": ("ignore-all", "report-all", "ignore-in-object-files", "ignore-in-shared-libs"),
    "exclude-libs": ("ALL", "libgcc.a"),
    "icf": ("all", "none", "safe"),
    "pack-dyn-relocs": ("relr", "none"),
    "format": ("elf", "default", "binary"),
    "b": ("elf64-x86-64", "default"),
    "oformat": ("elf64-x86-64", "binary", "elf"),
    "m": ("elf_x86_64",),
    "shuffle-sections": ("*=1", ".text*=3", ""),
    "section-order": ("TEXT RODATA DATA BSS",),
    "package-metadata": ("{}",),
    "unique": ("", ".text.one"),
    "defs": ("",),
    "color-diagnostics": ("", "=never"),
    "demangle": ("",),
    "dynamic-linker": ("/lib64/ld-linux-x86-64.so.2",),
    "I": ("/lib64/ld-linux-x86-64.so.2",),
    "call-graph-profile-sort": ("none", "hfsort"),
    "lto": ("full", "thin"),
    "mllvm": ("-verify-machineinstrs",),
    "threads": ("", "=1", "=2"),
    "split-by-file": ("", "=4096"),
    "split-by-reloc": ("", "=100"),
    "verbose": ("",),
    "max-page-size": _PAGES,
    "common-page-size": _PAGES,
    "stack-size": ("0x100000", "0"),
    "start-stop-visibility": ("default", "hidden", "protected"),
    "call-nop": ("prefix-addr", "suffix-nop"),
    "x86-64-": ("baseline",),
}
#: Options that leave the place where the link is done, start something else, or wait.
PASSED_OVER = frozenset(
    {"run", "chroot", "C", "directory", "plugin", "load-pass-plugin", "error-handling-script", "help"}
)
MODES = ("-pie", "-no-pie", "-static", "-shared", "-static-pie")
COMPILERS = ("gcc", "clang-14", "clang-19")
LINKERS = {
    "bfd": ("ld.bfd", ("-fuse-ld=bfd",)),
    "gold": ("ld.gold", ("-fuse-ld=gold",)),
    "mold": ("mold", ("-fuse-ld=mold",)),
    **{name: (f"{where}/ld.lld", ("-fuse-ld=lld", f"-B{where}")) for name, where in LLVM.items()},
}


@dataclass
class Line:
    """One line: the compiler's *words*, the *settings* of hugealign, and what came of it."""

    number: int
    words: list[str]
    settings: dict[str, str]
    shared: bool
    outcome: str = "not without hugealign either"
    differences: list[str] = field(default_factory=list)

    def command(self) -> str:
        """Return it as it is typed."""
        settings = [f"{name}={value}" for name, value in self.settings.items()]
        return shlex.join([*settings, "hugealign", *self.words])


def available() -> tuple[list[str], list[str]]:
    """Return the compilers and the linkers that are installed."""
    return [c for c in COMPILERS if shutil.which(c)], [n for n, (path, _) in LINKERS.items() if shutil.which(path)]


def prepare(work: Path) -> None:
    """Write and compile what goes into the links."""
    (work / "program.c").write_text(PROGRAM)
    (work / "driver.c").write_text(DRIVER)
    for name, text in (SCRIPTS | FILES | {"order": ORDER}).items():
        (work / name).write_text(text)
    for name, size in SIZES.items():
        (work / name).with_suffix(".s").write_text(BULK.format(size=size // 2))
        subprocess.run(("gcc", "-c", Path(name).with_suffix(".s"), "-o", name), cwd=work, check=True)
    for name, flags in (("program.o", ()), ("library.o", ("-DSHARED",))):
        command = ("gcc", "-O1", "-fPIC", "-g", *flags, "-c", "program.c", "-o", name)
        subprocess.run(command, cwd=work, check=True)
    subprocess.run(("gcc", "driver.c", "-o", "driver", "-ldl"), cwd=work, check=True)


def words_of(option: Option, chance: random.Random) -> list[str]:
    """Return *option* as words of a linker's command line, with a value if it takes one."""
    if option.keyword:
        name, equals, value = option.keyword.partition("=")
        if equals:
            named = [
                item for item in value.strip("[]").replace("|", ",").split(",") if item.isalpha() and item.islower()
            ]
            value = "=" + chance.choice(VALUES.get(name) or named or _NUMBERS)
        return ["-z", name.rstrip("-") + value]
    dashes = "-" if len(option.name) == 1 or option.name[0] in "TBd" else "--"
    if option.name in VALUES:
        value = chance.choice(VALUES[option.name])
        if not value or value.startswith("="):
            return [f"{dashes}{option.name}{value}"]
    elif not option.argument or option.argument.startswith("[="):
        return [dashes + option.name]
    else:
        listed = option.argument.strip("=[]<>").replace("|", ",").split(",")
        value = chance.choice(listed if len(listed) > 1 else _NUMBERS)
    if len(option.name) == 1:
        return [f"-{option.name}", value]
    return [f"{dashes}{option.name}={value}"]


def line(seed: int, number: int, compilers: list[str], linkers: list[str]) -> Line:
    """Return the line *number* of *seed*."""
    chance = random.Random(f"{seed} {number}")
    compiler, linker = chance.choice(compilers), chance.choice(linkers)
    mode = chance.choice(MODES)
    path, flags = LINKERS[linker]
    choices = [option for option in options(path) if option.name not in PASSED_OVER]
    if path.endswith("lld"):  # which does not list its keywords
        valued = ("max-page-size", "common-page-size", "stack-size", "start-stop-visibility")
        choices += [Option("z", name + "=V" * (name in valued)) for words, _ in Z_EFFECTS for name in words]
    words = [compiler, *flags, mode, "library.o" if mode == "-shared" else "program.o"]
    words.append("large.o" if chance.random() < 0.2 else "bulk.o")
    for option in chance.sample(choices, chance.choice((1, 1, 2, 3, 5))):
        for word in words_of(option, chance):
            words += ["-Xlinker", word]
    settings = {}
    if chance.random() < 0.2:
        settings["HUGEALIGN_PROFILE"] = "order"
    return Line(number, words, settings, mode == "-shared")


def outcome(command: list[str], work: Path, **settings: str) -> tuple[int, bytes, bytes]:
    """Return the status, standard output and standard error of *command*; 124 if it takes too long."""
    try:
        done = subprocess.run(
            command,
            cwd=work,
            env=environment(DIFFERENTIAL="yes", **settings),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, b"", b""
    except OSError as error:  # what was linked is not a program
        return 126, b"", str(error.strerror).encode()
    return done.returncode, done.stdout, done.stderr


def judge(case: Line, made: Path) -> Line:
    """Link *case* both ways in a directory of its own, run both programs, and note what differs."""
    with tempfile.TemporaryDirectory(dir=made) as name:
        work = Path(name)
        for file in made.iterdir():
            if file.is_file():
                (work / file.name).symlink_to(file)
        plain = outcome([*case.words, "-o", "plain"], work)
        if plain[0]:
            return case
        ours = outcome([str(HUGEALIGN), *case.words, "-o", "ours"], work, **case.settings)
        output = ours[2].decode("utf-8", "replace")
        if ours[0]:
            case.differences.append(f"the link ends with status {ours[0]}: {output.strip()[-300:]}")
        if "hugealign failed" in output or "Traceback" in output:
            case.differences.append(output.strip()[-300:])
        if (work / "plain").exists() != (work / "ours").exists():
            case.differences.append("one of the links wrote no file")
        if case.differences or not (work / "plain").exists():
            case.outcome = "nothing written"
            return case
        case.outcome = "laid out" if is_laid_out(work / "ours") else "left alone"
        before = ["./driver"] if case.shared else []
        results = []
        for each in ("plain", "ours"):
            (work / each).rename(work / "program")  # a program receives its name
            results.append(outcome([*before, "./program"], work))
        if results[0][0] == 124:
            results[1] = results[0]  # it waits for ever, whatever for
        if results[0] != results[1]:
            case.differences.append(f"plain: {results[0]}; with hugealign: {results[1]}; {output.strip()[-300:]}")
    return case


def is_laid_out(path: Path) -> bool:
    """Whether the file has text at huge alignment; False for what is not an ELF file."""
    try:
        return any(load["p_align"] >= PAGE for load in Elf(path).text)
    except Exception:  # noqa: BLE001  # pyelftools has its own kinds for each way to be no ELF file
        return False


def run(
    seed: int, count: int, only: int | None = None, jobs: int = 2, tell: Callable[[Line], object] = str
) -> tuple[list[Line], Counter[str]]:
    """Judge lines until *count* have been linked, or one; return those that differ, and how many took which way.

    *tell* is called with each line that differs as soon as that is known.
    """
    compilers, linkers = available()
    ways: Counter[str] = Counter()
    differing: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="links-") as name, ThreadPoolExecutor(jobs) as pool:
        made = Path(name)
        prepare(made)
        number, linked = 0, 0
        while linked < count:
            numbers = [only] if only is not None else range(number, number + min(64, 2 * (count - linked)))
            cases = [line(seed, each, compilers, linkers) for each in numbers]
            for case in pool.map(lambda case: judge(case, made), cases):
                ways[case.outcome] += 1
                linked += case.outcome != "not without hugealign either"
                if case.differences:
                    differing.append(case)
                    tell(case)
            number += len(cases)
            if only is not None:
                break
    return differing, ways


def main() -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.links", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--count", type=int, default=1000, help="lines that link plainly (default: 1000)")
    parser.add_argument("--only", type=int, metavar="N", help="repeat the line of this number")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)

    def tell(case: Line) -> None:
        print(f"line {case.number}: {case.command()}", *case.differences, sep="\n    ", flush=True)

    differing, ways = run(asked.seed, asked.count, asked.only, asked.jobs, tell)
    print(", ".join(f"{count} {way}" for way, count in ways.most_common()) + f"; {len(differing)} differences")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
