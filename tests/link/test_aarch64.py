"""aarch64 by cross compilers, run under qemu-user: the same promises, and the traps of that processor."""

import shutil
from pathlib import Path

import pytest

from tests.link.bulk import MAIN_OF_ANY, bulk_object
from tests.support import HUGEALIGN, LLVM, SRC, Elf, need_compiler, run

GCC = "aarch64-linux-gnu-gcc"
QEMU = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")
TOOLCHAINS = {
    "gcc-bfd": (GCC,),
    "gcc-gold": (GCC, "-fuse-ld=gold"),
    "gcc-lld14": (GCC, "-fuse-ld=lld", f"-B{LLVM['lld14']}"),
    "gcc-lld19": (GCC, "-fuse-ld=lld", f"-B{LLVM['lld19']}"),
    "gcc-mold": (GCC, "-B/usr/libexec/mold"),  # gcc 12 for another target finds no linker by -fuse-ld=mold
    "clang14-lld14": ("clang-14", "--target=aarch64-linux-gnu", "-fuse-ld=lld"),
    "clang19-lld19": ("clang-19", "--target=aarch64-linux-gnu", "-fuse-ld=lld"),
    "clang19-bfd": ("clang-19", "-target", "aarch64-linux-gnu"),
}
CANNOT = {
    ("gold", "static-pie"): "gold knows no static-pie (--no-dynamic-linker)",
    ("gold", "static"): "gold's static programs with IFUNC abort here, without hugealign as well",
}
#: UDF #0, and the BRK #1000 with which mold 2 and newer end a page of code.
TRAPS = {bytes(4), bytes.fromhex("007d20d4")}
MODES = {"pie": ("-pie",), "no-pie": ("-no-pie",), "static": ("-static",), "static-pie": ("-static-pie",)}

pytestmark = pytest.mark.skipif(
    not shutil.which(GCC) or not shutil.which(QEMU[0]), reason="no aarch64 cross compiler or qemu-aarch64"
)


@pytest.fixture(scope="session")
def bulk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bulk_object(tmp_path_factory.mktemp("bulk-aarch64"), compiler=GCC)


@pytest.fixture(scope="session")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("features-aarch64") / "features.o"
    run("aarch64-linux-gnu-g++", "-O1", "-fPIC", "-c", SRC / "features.cc", "-o", target, check=True)
    return target


@pytest.fixture(params=TOOLCHAINS)
def toolchain(request: pytest.FixtureRequest) -> tuple[str, tuple[str, ...]]:
    words = TOOLCHAINS[request.param]
    need_compiler(*words)
    return request.param.split("-")[1], words


def cxx(words: tuple[str, ...]) -> tuple[str, ...]:
    return (words[0].replace("gcc", "g++").replace("clang", "clang++"), *words[1:])


@pytest.mark.parametrize("mode", MODES)
def test_program(mode: str, toolchain: tuple[str, tuple[str, ...]], features: Path, bulk: Path, tmp_path: Path) -> None:
    linker, words = toolchain
    if reason := CANNOT.get((linker, mode)):
        pytest.skip(reason)
    output = tmp_path / "out"
    plain = run(*cxx(words), *MODES[mode], features, bulk, "-Wl,--gc-sections", "-o", tmp_path / "plain")
    assert plain.returncode == 0, plain.stderr
    done = run(HUGEALIGN, *cxx(words), *MODES[mode], features, bulk, "-Wl,--gc-sections", "-o", output)
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, plain.stderr)
    elf = Elf(output)
    assert elf.faults(exact=linker != "gold") == []  # GNU ld's default here would put data among the text
    pad = elf.pad()
    assert {pad[at : at + 4] for at in range(0, len(pad), 4)} <= TRAPS
    assert run(*QEMU, output).returncode == 0


def test_shared_library(toolchain: tuple[str, tuple[str, ...]], bulk: Path, tmp_path: Path) -> None:
    linker, words = toolchain
    library = tmp_path / "libbulk.so"
    plain = run(*words, "-shared", bulk, "-o", tmp_path / "plain.so", check=True)
    done = run(HUGEALIGN, *words, "-shared", bulk, "-o", library, check=True)
    assert done.stderr == plain.stderr
    assert Elf(library).faults(exact=linker != "gold") == []


def test_pad_of_zeros_is_a_hole(toolchain: tuple[str, tuple[str, ...]], bulk: Path, tmp_path: Path) -> None:
    words = toolchain[1]
    (tmp_path / "main.c").write_text(MAIN_OF_ANY)
    for name, prefix in (("plain", ()), ("padded", (HUGEALIGN,))):
        run(*prefix, *words, tmp_path / "main.c", bulk, "-o", tmp_path / name, check=True)
    with (tmp_path / "sparse").open("wb") as stream:
        stream.truncate(1 << 20)
    if (tmp_path / "sparse").stat().st_blocks * 512 >= 1 << 20:
        pytest.skip("the file system keeps no holes")
    added = ((tmp_path / "padded").stat().st_blocks - (tmp_path / "plain").stat().st_blocks) * 512
    assert added <= 64 << 10


def test_small_stays_small(tmp_path: Path) -> None:
    (tmp_path / "hello.c").write_text("int main(void) { return 0; }\n")
    for name, prefix in (("plain", ()), ("wrapped", (HUGEALIGN,))):
        run(*prefix, GCC, tmp_path / "hello.c", "-o", tmp_path / name, check=True)
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "wrapped").read_bytes()


def test_branch_protection_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int a(void) { return 1; }\n")
    output = tmp_path / "lib.so"
    words = (GCC, "-mbranch-protection=standard", "-fPIC", "-shared", "-nostdlib", tmp_path / "a.c", "-o", output)
    run(HUGEALIGN, *words, check=True, HUGEALIGN_MIN_TEXT="0")
    assert Elf(output).faults() == []
    assert "BTI, PAC" in run("readelf", "-n", output).stdout


def far_source(functions: int = 160) -> str:
    """Assembly of that many functions, each with a mebibyte of nothing behind it, that call each other across all."""
    parts = [".altmacro"]
    for n in range(functions):
        other = (n + functions // 2) % functions
        parts.append(
            f"""
    .section .text.far{n}, "ax", %progbits
    .globl far{n}
    .type far{n}, %function
far{n}:
    cbz w0, 1f
    stp x29, x30, [sp, #-16]!
    mov w0, #0
    bl far{other}
    add w0, w0, #1
    ldp x29, x30, [sp], #16
1:  ret
    .space 1 << 20
    .size far{n}, . - far{n}"""
        )
    calls = "\n".join(f"    mov w0, #1\n    bl far{n}\n    add w19, w19, w0" for n in range(functions))
    parts.append(
        f"""
    .text
    .globl main
    .type main, %function
main:
    stp x29, x30, [sp, #-32]!
    str x19, [sp, #16]
    mov w19, #0
{calls}
    sub w0, w19, #{functions - 42}
    ldr x19, [sp, #16]
    ldp x29, x30, [sp], #32
    ret
    .section .note.GNU-stack, "", %progbits
"""
    )
    return "\n".join(parts)


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["gcc-bfd", "gcc-lld14", "gcc-lld19", "gcc-mold", "gcc-gold"])
def test_text_that_branches_cannot_span(name: str, tmp_path: Path) -> None:
    """A branch reaches 128 MiB: the linker puts veneers between, and what it pads must not move them out of reach."""
    linker, words = name.split("-")[1], TOOLCHAINS[name]
    need_compiler(*words)
    (tmp_path / "far.s").write_text(far_source())
    run(GCC, "-c", "far.s", cwd=tmp_path, check=True)
    plain = run(*words, "far.o", "-o", "plain", cwd=tmp_path)
    assert plain.returncode == 0, plain.stderr
    done = run(HUGEALIGN, *words, "far.o", "-o", "out", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, plain.stderr)
    assert Elf(tmp_path / "out").faults(exact=linker != "gold") == []
    assert Elf(tmp_path / "out").text[0]["p_filesz"] > 128 << 20
    assert run(HUGEALIGN, "verify", tmp_path / "out").returncode == 0
    names = run("aarch64-linux-gnu-nm", tmp_path / "out").stdout.lower()
    assert "veneer" in names or "thunk" in names or linker == "gold"  # gold's stubs have no names
    for program in ("plain", "out"):
        assert run(*QEMU, tmp_path / program).returncode == 42
        (tmp_path / program).unlink()
    (tmp_path / "far.o").unlink()
