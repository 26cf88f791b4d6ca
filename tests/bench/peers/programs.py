"""The programs: how each is linked, and what it is run with, to learn from and to be judged by."""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.peers import generated
from tests.configure import sources
from tests.support import HUGEALIGN, LLVM, ROOT, environment

WORK = ROOT / "build" / "bench" / "peers"
_LLVM = Path("/usr/lib/llvm-19")
_DEBS = ("libclang-19-dev", "libpolly-19-dev")
#: Of clang, in an order that a linker needs not know: they are one group.
_CLANG = (
    *("FrontendTool", "CodeGen", "StaticAnalyzerFrontend", "StaticAnalyzerCheckers", "StaticAnalyzerCore", "CrossTU"),
    *("Index", "RewriteFrontend", "Rewrite", "ToolingCore", "ARCMigrate", "ExtractAPI", "InstallAPI", "Frontend"),
    *("Driver", "Parse", "Serialization", "Sema", "Edit", "Analysis", "ASTMatchers", "AST", "APINotes", "Lex"),
    *("Basic", "Support"),
)
_COMPONENTS = (
    *("x86", "passes", "codegen", "lto", "coverage", "option", "frontendopenmp", "frontenddriver", "frontendhlsl"),
    *("windowsdriver", "irreader", "irprinter"),
)
_CC1 = (
    *("-triple", "x86_64-pc-linux-gnu", "-target-cpu", "x86-64", "-mrelocation-model", "pic", "-pic-level", "2"),
    *("-fgnuc-version=4.2.1", "-emit-obj", "-O2", "-vectorize-loops", "-vectorize-slp", "-w", "-x", "c++"),
    *("-std=c++20", "-fcxx-exceptions", "-fexceptions", "-o", "/dev/null"),
)


@dataclass(frozen=True, slots=True)
class Program:
    """One program: *driver* and *words* link it in *directory*; *train*, *test* and *job* are its arguments."""

    name: str
    about: str
    directory: Path
    driver: str
    words: tuple[str, ...]
    train: tuple[str, ...]
    test: tuple[str, ...]
    job: tuple[str, ...]
    #: Numbers of huge windows to look at: 0, 1, 8 and others.
    budgets: tuple[int, ...]
    #: Whether GNU ld takes so long for it that lld makes what need not be GNU ld's.
    large: bool
    #: How to compile it again, divided by an order file: returns the words that link that, in place of `words`.
    divided: Callable[[Path], tuple[str, ...]] | None = None


def _generated() -> Program:
    directory = WORK / "generated"
    words = tuple(generated.generate(directory))
    return Program(
        "generated",
        "A generated program of 29,298 functions, 26 MiB of text (`tests/bench/peers/generated.py`): 10,000 kinds of "
        "requests, drawn after Zipf, each of which goes through some functions of some modules. Learned from 60,000 "
        "requests, judged by 30,000 others.",
        directory,
        "gcc",
        words,
        ("1", "60000"),
        ("2", "30000"),
        ("3", "400000"),
        (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16),
        large=False,
    )


def _clang() -> Program:
    """Clang, out of the archives of Debian's packages: nothing of it is compiled but its `main`."""
    directory = WORK / "clang"
    directory.mkdir(parents=True, exist_ok=True)
    root = directory / "root" / "usr" / "lib" / "llvm-19"
    if not (root / "lib" / "libPolly.a").exists():
        subprocess.run(["apt-get", "-q", "download", *_DEBS], cwd=directory, check=True)
        for package in directory.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, directory / "root"], check=True)
    source, made = Path(__file__).with_name("compiler.cc"), directory / "compiler.o"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        flags = ["-std=c++17", "-O1", "-fno-rtti", "-ffunction-sections", f"-I{root}/include", f"-I{_LLVM}/include"]
        subprocess.run(["g++", *flags, "-c", source, "-o", "compiler.o"], cwd=directory, check=True)
    for name in ("containers", "variant"):
        source = ROOT / "tests" / "corpus" / "cxx" / f"{name}.cc"
        preprocess = ["clang-19", "-std=c++20", "-E", "-P", str(source), "-o", str(directory / f"{name}.ii")]
        subprocess.run(preprocess, check=True)
    config = [shutil.which("llvm-config-19") or str(_LLVM / "bin" / "llvm-config"), "--link-static"]
    libraries = _printed([*config, "--libs", *_COMPONENTS])
    # The two that are installed without their development packages.
    installed = {"-lzstd": "-l:libzstd.so.1", "-lxml2": "-l:libxml2.so.2"}
    system = [installed.get(word, word) for word in _printed([*config, "--system-libs"])]
    archives = [os.path.relpath(root / "lib" / f"libclang{name}.a", directory) for name in _CLANG]
    words = (
        *("compiler.o", "-Wl,--start-group", *archives, "-Wl,--end-group"),
        *(f"-L{_LLVM}/lib", f"-L{os.path.relpath(root / 'lib', directory)}", *libraries, *system),
    )
    return Program(
        "clang",
        "Clang 19, linked from the static libraries of Debian's packages (`tests/bench/peers/programs.py`). Learned "
        "from compiling `tests/corpus/cxx/containers.cc` at -O2, judged by `variant.cc`.",
        directory,
        "g++",
        words,
        (*_CC1, "containers.ii"),
        (*_CC1, "variant.ii"),
        (*_CC1, "containers.ii"),
        (0, 1, 2, 4, 6, 8, 12, 16),
        large=True,
    )


_SQLITE_FLAGS = ("-O2", "-fPIE", "-ffunction-sections", "-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION")


def _sqlite() -> Program:
    """SQLite's shell, compiled by clang with the map of blocks."""
    directory = WORK / "sqlite"
    sources(directory, ["sqlite3"])
    tree = directory / "sqlite3" / "tree"
    if not (tree / "sqlite3.c").exists():
        subprocess.run(["./configure", "--disable-tcl"], cwd=tree, check=True, capture_output=True)
        subprocess.run(["make", "sqlite3.c", "shell.c"], cwd=tree, check=True, capture_output=True)
    for name in ("train", "test"):
        shutil.copyfile(Path(__file__).with_name(f"sqlite-{name}.sql"), directory / f"{name}.sql")

    def compiled(prefix: str, *front: str, flags: tuple[str, ...] = ()) -> tuple[str, ...]:
        for name in ("sqlite3", "shell"):
            words = [*front, "clang-19", *_SQLITE_FLAGS, *flags, "-c", f"{tree}/{name}.c", "-o", f"{prefix}{name}.o"]
            subprocess.run(words, cwd=directory, check=True, env=environment())
        return (f"{prefix}sqlite3.o", f"{prefix}shell.o", "-lm", "-lz")

    words = compiled("", flags=("-fbasic-block-address-map",))
    return Program(
        "sqlite",
        "SQLite's shell out of Debian's source package, compiled by clang 19 at -O2. Learned from a script of inserts, "
        "an index and aggregates, judged by one of joins, windows, triggers and a vacuum, which has little in common "
        "with it (`tests/bench/peers/sqlite-*.sql`). No rule of hugealign's was chosen by it but that of blocks from "
        "samples (docs/order.md).",
        directory,
        "gcc",
        words,
        (":memory:", ".read train.sql"),
        (":memory:", ".read test.sql"),
        (":memory:", ".read train.sql"),
        (0, 1, 2),
        large=True,
        divided=lambda order: compiled("divided.", str(HUGEALIGN), f"--profile={order}"),
    )


def _printed(argv: list[str]) -> list[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


PROGRAMS: dict[str, Callable[[], Program]] = {"generated": _generated, "clang": _clang, "sqlite": _sqlite}
LLD = ("-fuse-ld=lld", f"-B{LLVM['lld19']}")
LINKERS = {"bfd": ("-fuse-ld=bfd",), "lld": LLD, "gold": ("-fuse-ld=gold",), "mold": ("-fuse-ld=mold",)}
