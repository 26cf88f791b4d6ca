"""Shared libraries found without running anything, held against what the dynamic linker itself finds."""

import os
import subprocess
from pathlib import Path

import pytest

from hugealign.errors import HugealignError
from hugealign.system import libraries
from tests.live.programs import TOUCHED, WINDOW, WINDOWS, Programs, chill, huge_kib, hugealign, running
from tests.live.stock import store
from tests.packaged import elf_files

LOADER = "ld-linux"


def ldd(path: Path, **environ: str) -> tuple[set[str], set[str]]:
    """What ld.so(8) finds, and what it does not: real paths and names."""
    words = subprocess.run(
        ["ldd", path], env={"PATH": os.environ["PATH"], **environ}, check=False, capture_output=True, text=True
    ).stdout.splitlines()
    lines = [line.split() for line in words]
    result = {w[2] if "=>" in w else w[0] for w in lines if "not" not in w and any(x.startswith("/") for x in w)}
    return {os.path.realpath(f) for f in result if LOADER not in f}, {w[0] for w in lines if "not" in w[1:3]}


def ours(path: Path, **environ: str) -> tuple[set[str], set[str]]:
    result = libraries.resolve(str(path), environ)
    return {p for p in result.paths if LOADER not in p}, {name for name, _ in result.missing}


def test_files_of_packages_as_the_dynamic_linker_finds_them() -> None:
    compared = 0
    for path in elf_files("coreutils", "util-linux", "binutils-x86-64-linux-gnu", "gdb", "git", "llvm-14")[::5]:
        expected = ldd(path)
        if expected[0]:
            assert ours(path) == expected, path
            compared += 1
    assert compared > 10


def build(directory: Path, name: str, *flags: str, needs: tuple[str, ...] = ()) -> Path:
    target = directory / name
    target.parent.mkdir(parents=True, exist_ok=True)
    source = b"int main(void) { return 0; }" if "-shared" not in flags else b"int here;"
    words = ["gcc", "-x", "c", "-", "-x", "none", *flags, "-Wl,--no-as-needed", *needs, "-o", str(target)]
    subprocess.run([*words, "-Wl,--allow-shlib-undefined", f"-Wl,-rpath-link,{directory}/a"], input=source, check=True)
    return target


def shared(directory: Path, name: str, *flags: str, needs: tuple[str, ...] = ()) -> Path:
    return build(directory, name, "-shared", "-fPIC", f"-Wl,-soname,{Path(name).name}", *flags, needs=needs)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """libouter.so in a, which needs libinner.so, of which there are several."""
    inner = shared(tmp_path, "a/libinner.so")
    for other in ("b", "c"):
        shared(tmp_path, f"{other}/libinner.so")
    shared(tmp_path, "a/libouter.so", needs=(str(inner),))
    return tmp_path


OLD, NEW = "-Wl,--disable-new-dtags", "-Wl,--enable-new-dtags"


@pytest.mark.parametrize(
    ("flags", "environ"),
    [
        ((), {}),  # nothing is found
        ((OLD, "-Wl,-rpath,$ORIGIN/a"), {}),  # RPATH: for what the libraries need as well
        ((NEW, "-Wl,-rpath,$ORIGIN/a"), {}),  # RUNPATH: for what the program needs alone
        ((NEW, "-Wl,-rpath,${ORIGIN}/a"), {"LD_LIBRARY_PATH": "{}/b"}),
        ((NEW, "-Wl,-rpath,$ORIGIN/a:$ORIGIN/c"), {"LD_LIBRARY_PATH": "{}/none:{}/c;{}/b"}),
        ((OLD, "-Wl,-rpath,$ORIGIN/a"), {"LD_LIBRARY_PATH": "{}/b"}),  # RPATH comes first
        ((), {"LD_LIBRARY_PATH": "{}/a"}),
        ((NEW, "-Wl,-rpath,$ORIGIN/$LIB/none:$ORIGIN/a"), {"LD_LIBRARY_PATH": "{}/c/"}),
    ],
)
def test_search_path(tree: Path, flags: tuple[str, ...], environ: dict[str, str]) -> None:
    program = build(tree, "program", *flags, needs=(f"-L{tree}/a", "-l:libouter.so"))
    environ = {name: value.replace("{}", str(tree)) for name, value in environ.items()}
    expected = ldd(program, **environ)
    assert ours(program, **environ) == expected
    assert expected[0] or "libouter.so" in expected[1]


def test_runpath_of_a_library(tree: Path) -> None:
    shared(tree, "a/libouter.so", NEW, "-Wl,-rpath,$ORIGIN/../c", needs=(f"{tree}/a/libinner.so",))
    program = build(tree, "program", OLD, "-Wl,-rpath,$ORIGIN/a", needs=(f"-L{tree}/a", "-l:libouter.so"))
    assert ours(program) == ldd(program)
    assert f"{tree}/c/libinner.so" in ours(program)[0]


def test_library_of_another_machine_is_passed_over(tree: Path) -> None:
    program = build(tree, "program", NEW, "-Wl,-rpath,$ORIGIN/b:$ORIGIN/a", needs=(f"-L{tree}/a", "-l:libinner.so"))
    data = bytearray((tree / "b/libinner.so").read_bytes())
    data[18:20] = (183).to_bytes(2, "little")  # e_machine
    (tree / "b/libinner.so").write_bytes(data)
    assert f"{tree}/a/libinner.so" in ours(program)[0]
    os.mkfifo(tree / "b/fifo")
    (tree / "b/libinner.so").unlink()
    (tree / "b/fifo").rename(tree / "b/libinner.so")
    assert f"{tree}/a/libinner.so" in ours(program)[0]


def test_hostile_tables_end(tmp_path: Path, built: Programs) -> None:
    image = bytearray(built.good.read_bytes())
    assert libraries.resolve(str(built.good)).missing == ()
    at = image.index(b"libc.so.6\0")
    image[at : at + 9] = b"x\x1b[31m\n.."
    hostile = tmp_path / "hostile"
    hostile.write_bytes(image)
    assert libraries.resolve(str(hostile)).missing == (("x\x1b[31m\n..", str(hostile)),)
    done = hugealign("warm", "--check", "--libs", hostile)
    assert done.stderr == f"hugealign: error: x\\x1b[31m\\n..: library not found; needed by {hostile}\n"
    for size in (64, 200, 900, 2000):
        hostile.write_bytes(image[:size])
        try:
            assert isinstance(libraries.resolve(str(hostile)).paths, tuple)
        except HugealignError:
            continue


def test_libs_are_warmed_and_named(programs: Programs) -> None:
    directory = programs.directory
    (directory / "lib.c").write_text(TOUCHED)
    (directory / "user.c").write_text(
        '#include <unistd.h>\nint touch(void);\nint main(void) { touch(); if (write(1, "ready\\n", 6)) pause(); }\n'
    )
    flags = "-Wl,-T,pad.ld -Wl,-z,max-page-size=0x200000 -Wl,-z,separate-code -fuse-ld=bfd"
    for words in (
        f"gcc -shared -fPIC -O1 lib.c text.o pad.o {flags} -o libbig.so",
        "gcc user.c -L. -l:libbig.so -Wl,-rpath,$ORIGIN -o user",
    ):
        subprocess.run(words.split(), cwd=directory, check=True)
    library, user = directory / "libbig.so", directory / "user"
    chill(library)
    done = hugealign("warm", "--libs", user)
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{user}: 0 of 0 windows huge")
    assert f"{library}: {WINDOWS} of {WINDOWS} windows huge (6.0 MiB)" in lines
    assert lines[-2].startswith("2 libraries without a whole window: ")
    assert lines[-1] == f"total: {WINDOWS} of {WINDOWS} windows huge (6.0 MiB)"
    assert done.returncode == 1  # for the program itself
    with running(user) as child:
        assert huge_kib(child.pid, library) == WINDOWS * WINDOW >> 10
    # Libraries without a window are not a finding.
    repeated = hugealign("warm", "--libs", library)
    assert (repeated.returncode, repeated.stderr) == (0, "")


def test_small_libraries_get_no_copy(programs: Programs) -> None:
    """A copy takes some huge pages more than its file, which less than half a window of text is not worth."""
    directory = programs.directory
    for name, kib in (("small", 1000), ("large", 1100)):
        source = f".text\n.globl {name}\n{name}: ret\n.fill {kib << 10}, 1, 0\n.section .note.GNU-stack\n"
        (directory / f"{name}.s").write_text(source)
        subprocess.run(["gcc", "-shared", f"{name}.s", "-o", f"lib{name}.so"], cwd=directory, check=True)
    (directory / "both.c").write_text("void small(void), large(void); int main(void) { small(), large(); }\n")
    words = ["gcc", "both.c", "-L.", "-lsmall", "-llarge", "-Wl,-rpath,$ORIGIN", "-o", "both"]
    subprocess.run(words, cwd=directory, check=True)
    staged = [directory / "liblarge.so"]
    done = hugealign("run", "-v", "--how=stage", "--fix", "--libs", "--", directory / "both")
    assert [path for path in directory.glob("lib*.so") if str(path) in done.stderr] == staged
    with store(directory) as place:
        done = hugealign("stage", "--store", place, "--fix", "--libs", directory / "both")
        assert [path for path in directory.glob("lib*.so") if str(path) in done.stdout] == staged
        done = hugealign("stage", "--store", place, "--fix", directory / "libsmall.so")  # since that was named
        assert f"{directory}/libsmall.so: 1 of 1 windows" in done.stdout
