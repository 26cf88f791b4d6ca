"""Programs by which hugealign is judged, and not tuned but for a few rules.

Their second runs have little in common with the first.  The programs decided these rules of `hugealign order`
(docs/measured/orders.md): SQLite decided how many samples it takes to divide a function; the Rust program, in which
order functions of one name keep their blocks; the Rust program and lowering, what follows the functions that ran where
no page is huge; backends and lowering, in which order huge windows are filled, and lowering, how little a reference
counts (clang gains as much with 0.05 as with 0.1; lowering twice as much).  Backends showed that the smallest of the
parts that leave functions run the most, and clang that using this helps.  The alignment of divided functions to 8 bytes
was chosen with all figures at hand: 4 is some percent better in clang and gawk, and worse in lowering, SQLite and the
Rust program.
"""

import io
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from elftools.elf.elffile import ELFFile

from lab.bench.peers import llvm
from lab.bench.peers.program import WORK, Program, compiled, printed, unpacked
from lab.bench.peers.units import divisible
from lab.bench.sources import sources

_HERE = Path(__file__).parent
CXX = (_HERE / "containers.cc", _HERE / "variant.cc")  #: what clang and backends learn from, and are judged by
RUST, _BITCODE = "1.86.0", b"BC\xc0\xde"
_CXX = ("g++", "-std=c++17", "-O1", "-fno-rtti", "-ffunction-sections")


def _scripts(directory: Path, train: Path, test: Path) -> None:
    for name, path in (("train", train), ("test", test)):
        shutil.copyfile(path, directory / f"{name}{path.suffix}")


def sqlite_units(directory: Path, release: str = "") -> tuple[list[Path], tuple[str, ...]]:
    """Return the sources of SQLite's shell, fetched and configured, and the flags that they need.

    *release* is Debian's, by default the one of this machine.
    """
    _scripts(directory, _HERE / "sqlite-train.sql", _HERE / "sqlite-test.sql")
    sources(directory, ["sqlite3"], release)
    tree = directory / "sqlite3" / "tree"
    if not (tree / "sqlite3.c").exists():
        subprocess.run(["./configure", "--disable-tcl"], cwd=tree, check=True, capture_output=True)
        subprocess.run(["make", "sqlite3.c", "shell.c"], cwd=tree, check=True, capture_output=True)
    flags = ("-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION")
    return [tree / "sqlite3.c", tree / "shell.c"], flags


def gawk_units(directory: Path) -> tuple[list[Path], tuple[str, ...]]:
    """Return the sources of gawk, fetched and configured, and the flags that they need."""
    _scripts(directory, _HERE / "gawk-train.awk", _HERE / "gawk-test.awk")
    sources(directory, ["gawk"])
    tree = directory / "gawk" / "tree"
    if not (tree / "config.h").exists():
        without = ("--disable-mpfr", "--without-readline", "--disable-extensions", "--disable-nls", "--disable-pma")
        subprocess.run(["./configure", *without], cwd=tree, check=True, capture_output=True)
    parts = ("dfa", "getopt", "getopt1", "localeinfo", "random", "regex")
    files = [path for path in sorted(tree.glob("*.c")) if path.name != "floatmagic.c"]
    words = ("-DGAWK", "-DHAVE_CONFIG_H", '-DDEFPATH="."', '-DDEFLIBPATH="."', '-DSHLIBEXT="so"', '-DLOCALEDIR="."')
    return [*files, *(tree / "support" / f"{name}.c" for name in parts)], (*words, f"-I{tree}", f"-I{tree}/support")


def _bitcode(path: Path) -> bytes:
    """Return the bitcode in the object at *path*, or that it consists of; empty if there is none."""
    data = path.read_bytes()
    if not data.startswith(_BITCODE):
        section = ELFFile(io.BytesIO(data)).get_section_by_name(".llvmbc")
        data = section.data() if section else b""
    return data if data.startswith(_BITCODE) else b""


def script_units(directory: Path) -> tuple[list[Path], tuple[str, ...]]:
    """Return the bitcode of all crates of Rhai and of Rust's own library, and the flags that clang needs for it.

    rustc makes bitcode for link-time optimisation by LLVM's linker (``-Clinker-plugin-lto``); the library, which comes
    compiled, includes its bitcode (``-Cembed-bitcode``).  Everything else goes into rest.a.  Rust 1.86 is the last
    version with LLVM 19, whose bitcode clang 19 reads.
    """
    _scripts(directory, _HERE / "script-train.rhai", _HERE / "script-test.rhai")
    host = "x86_64-unknown-linux-gnu"
    archive = directory / "target" / host / "release" / "libscript.a"
    if not archive.exists():
        crate = directory / "crate"  # cargo writes its choice of versions next to the manifest
        shutil.copytree(_HERE / "script", crate, dirs_exist_ok=True)
        place = ["--manifest-path", str(crate / "Cargo.toml"), "--target-dir", str(directory / "target")]
        words = ["cargo", f"+{RUST}", "build", "--release", *place, "--target", host]  # flags then apply only to it
        # Lines for perf and backtraces, as in shipped programs.  The seed is for hashes; by default each build draws
        # one.
        flags = "-Clinker-plugin-lto -Cdebuginfo=line-tables-only"
        settings = {"RUSTFLAGS": flags, "CONST_RANDOM_SEED": "1"}
        subprocess.run(words, check=True, env=os.environ | settings)
    members = directory / "members"
    shutil.rmtree(members, ignore_errors=True)
    members.mkdir()
    subprocess.run(["ar", "x", str(archive)], cwd=members, check=True)
    units, rest = [], []
    for path in sorted(members.iterdir()):
        if bitcode := _bitcode(path):
            units.append(path.with_suffix(".bc"))
            units[-1].write_bytes(bitcode)
        else:
            rest.append(str(path.relative_to(directory)))
    (directory / "rest.a").unlink(missing_ok=True)
    subprocess.run(["ar", "rcs", "rest.a", *rest], cwd=directory, check=True)
    return units, ("-x", "ir")


def _by_clang(
    name: str,
    about: str,
    found: Callable[[Path], tuple[list[Path], tuple[str, ...]]],
    libraries: tuple[str, ...],
    runs: tuple[tuple[str, ...], tuple[str, ...]],
    budgets: tuple[int, ...] = (0, 1, 2),
) -> Program:
    """Return a program with divisible blocks, of the sources that *found* returns and *libraries*."""
    directory = WORK / name
    directory.mkdir(parents=True, exist_ok=True)
    files, flags = found(directory)
    train, test = runs
    plain = Program(
        name,
        f"{about} compiled by clang 19 at -O2.",
        directory,
        "gcc",
        libraries,
        train,
        test,
        train,
        budgets,
        large=True,
    )
    return divisible(plain, files, flags)


def _sqlite() -> Program:
    about = (
        "SQLite's shell (C). The builds learn from a script of inserts, an index and aggregates, and are judged by one "
        "of joins, windows, triggers and a vacuum (`lab/bench/peers/sqlite-*.sql`). Debian's source package is"
    )
    runs = (":memory:", ".read train.sql"), (":memory:", ".read test.sql")
    return _by_clang("sqlite", about, sqlite_units, ("-lm", "-lz"), runs)


def _gawk() -> Program:
    about = (
        "gawk (C). The builds learn from a script that counts the words of lines, and are judged by one of recursion, "
        "mathematics, sorting and formats (`lab/bench/peers/gawk-*.awk`). Debian's source package is"
    )
    return _by_clang("gawk", about, gawk_units, ("-lm", "-ldl"), (("-f", "train.awk"), ("-f", "test.awk")))


def _script() -> Program:
    about = (
        f"Rhai 1.22, a scripting language (Rust {RUST}; `lab/bench/peers/script`). The builds learn from loops over "
        "numbers and arrays, and are judged by strings, maps, closures and exceptions "
        "(`lab/bench/peers/script-*.rhai`). All code, Rust's own library included, is rustc's bitcode,"
    )
    return _by_clang(
        "script", about, script_units, ("rest.a", "-lm"), (("train.rhai",), ("test.rhai",)), (0, 1, 2, 3, 4)
    )


def _backends() -> Program:
    """LLVM 14's code generators for all processors, from the archives of Debian's package, except code that ran."""
    directory = WORK / "backends"
    directory.mkdir(parents=True, exist_ok=True)
    prefix = Path("/usr/lib/llvm-14")
    made = compiled(_HERE / "backends.cc", directory / "backends.o", *_CXX, f"-I{prefix}/include")
    for source in CXX:
        front = ["clang-14", "-std=c++20", "-O1", "-Xclang", "-disable-llvm-passes", "-emit-llvm"]
        subprocess.run([*front, "-c", str(source), "-o", f"{source.stem}.bc"], cwd=directory, check=True)
    config = [str(prefix / "bin" / "llvm-config"), "--link-static"]
    libraries = printed([*config, "--libs", "all-targets", "irreader", "ipo", "codegen"])
    program = Program(
        "backends",
        "LLVM 14's optimizer and code generators for nineteen processors (C++; `lab/bench/peers/backends.cc`), "
        f"{llvm.ABOUT}. The builds learn from a file for AArch64 and are judged by another for PowerPC.",
        directory,
        "g++",
        (made, f"-L{prefix}/lib", *libraries, *printed([*config, "--system-libs"])),
        ("aarch64-linux-gnu", "containers.bc"),
        ("powerpc64le-linux-gnu", "variant.bc"),
        ("aarch64-linux-gnu", "containers.bc"),
        (0, 1, 2, 4, 8, 16),
        large=True,
    )
    return llvm.compiled_again(program, llvm.LLVM_14)


_LOWER = (
    *("-convert-linalg-to-affine-loops", "-affine-loop-tile", "-affine-loop-unroll", "-lower-affine"),
    *("-convert-scf-to-cf", "-finalize-memref-to-llvm", "-convert-func-to-llvm", "-convert-cf-to-llvm"),
    *("-convert-arith-to-llvm", "-reconcile-unrealized-casts"),
)
_OFFLOAD = (
    "builtin.module(func.func(tosa-to-linalg-named,tosa-to-linalg,tosa-to-arith),"
    "one-shot-bufferize{bufferize-function-boundaries},"
    "func.func(convert-linalg-to-parallel-loops,gpu-map-parallel-loops,convert-parallel-loops-to-gpu),"
    "gpu-kernel-outlining,canonicalize,cse)"
)


def _lowering() -> Program:
    """MLIR 19's optimizer, from the archives of Debian's packages, except code that ran."""
    directory = WORK / "lowering"
    directory.mkdir(parents=True, exist_ok=True)
    prefix, packages = Path("/usr/lib/llvm-19"), ("libmlir-19-dev", "libpolly-19-dev")
    root = unpacked(directory, packages, "usr/lib/llvm-19/lib/libPolly.a") / "usr/lib/llvm-19"
    include = (f"-I{root}/include", f"-I{prefix}/include")
    made = compiled(_HERE / "lowering.cc", directory / "lowering.o", *_CXX, *include)
    scripts = (("train", _HERE / "lowering-train.mlir", 80), ("test", _HERE / "lowering-test.mlir", 60))
    for name, path, count in scripts:
        once = path.read_text()
        (directory / f"{name}.mlir").write_text("".join(once.replace("NUMBER", str(n)) for n in range(1, count + 1)))
    unused = ("MLIRTest", "TestPasses", "MLIRCAPI", "Lsp", "PDLLParser", "JitRunner", "Reduce", "TableGen")
    archives = [
        os.path.relpath(path, directory)
        for path in sorted((root / "lib").glob("libMLIR*.a"))
        if not any(word in path.name for word in unused)
    ]
    config = [str(prefix / "bin" / "llvm-config"), "--link-static"]
    components = ("x86", "amdgpu", "nvptx", "irreader", "passes", "frontendopenmp", "coroutines", "lto")
    # Two libraries are installed without their development packages.
    installed = {"-lzstd": "-l:libzstd.so.1", "-lxml2": "-l:libxml2.so.2"}
    words = (
        *(made, "-Wl,--start-group", *archives, "-Wl,--end-group", f"-L{prefix}/lib"),
        *(f"-L{os.path.relpath(root / 'lib', directory)}", *printed([*config, "--libs", *components])),
        *(installed.get(word, word) for word in printed([*config, "--system-libs"])),
    )
    program = Program(
        "lowering",
        "MLIR 19's optimizer with all its dialects (C++; `lab/bench/peers/lowering.cc`), "
        f"{llvm.ABOUT}. The builds learn from matrix products lowered to LLVM's dialect, and are judged by other "
        "tensor operations lowered for a GPU.",
        directory,
        "g++",
        words,
        ("train.mlir", *_LOWER),
        ("test.mlir", f"-pass-pipeline={_OFFLOAD}"),
        ("train.mlir", *_LOWER),
        (0, 1, 4, 8, 16),
        large=True,
    )
    return llvm.compiled_again(program, llvm.LLVM_19)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "sqlite": _sqlite,
    "gawk": _gawk,
    "script": _script,
    "backends": _backends,
    "lowering": _lowering,
}
