"""The shim runs the linker that the driver would have run."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import BIN, HUGEALIGN, LLVM, MORE_OF_A_LINK, ROOT, Elf, environment, need, need_compiler, run

SHIMS = ROOT / "hugealign" / "libexec"


def linker_of(*words: str | Path, cwd: Path, **settings: Any) -> str:
    """Return the path of the linker that a link through hugealign runs, as HUGEALIGN_DEBUG tells."""
    done = run(HUGEALIGN, *words, cwd=cwd, HUGEALIGN_DEBUG="1", HUGEALIGN_MIN_TEXT="0", **settings)
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stderr.splitlines() if " as " in line)
    return line.partition(" as ")[0].rpartition(": ")[2]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("gcc", "ld"),
        ("gcc -fuse-ld=bfd", "ld.bfd"),
        ("gcc -fuse-ld=gold", "ld.gold"),
        ("gcc -fuse-ld=mold", "ld.mold"),
        ("clang-14", "/usr/bin/ld"),
        ("clang-14 -fuse-ld=lld", f"{LLVM['lld14']}/ld.lld"),
        ("clang-19 -fuse-ld=lld", f"{LLVM['lld19']}/ld.lld"),
        ("clang-19 -flto -fuse-ld=lld", f"{LLVM['lld19']}/ld.lld"),
        ("clang-19 -flto=thin -fuse-ld=lld", f"{LLVM['lld19']}/ld.lld"),
        ("gcc -fuse-ld=lld -B/usr/lib/llvm-19/bin", f"{LLVM['lld19']}/ld.lld"),
        ("gcc -fuse-ld=lld -B /usr/lib/llvm-14/bin/", f"{LLVM['lld14']}/ld.lld"),
        ("gcc -B/usr/libexec/mold", "/usr/libexec/mold/ld"),
        ("clang-19 -B/usr/libexec/mold", "/usr/libexec/mold/ld"),
        ("clang-14 -B /usr/libexec/mold", "/usr/libexec/mold/ld"),
    ],
)
def test_real_linkers(words: str, expected: str, work: Path) -> None:
    need_compiler(*words.replace("-B ", "-B").split())
    if "/" in expected and not Path(expected).exists():
        pytest.skip(f"{expected} is not installed")
    result = linker_of(*words.split(), "main.c", "-o", "main", cwd=work)
    assert result == expected or result.endswith("/" + expected)
    assert run(work / "main").returncode == 0


def test_compiler_path_of_the_user(work: Path) -> None:
    need("ld.mold")
    directory = work / "mine"
    directory.mkdir()
    (directory / "ld").symlink_to(shutil.which("mold") or "")
    assert linker_of("gcc", "main.c", "-o", "main", cwd=work, COMPILER_PATH=str(directory)) == f"{directory}/ld"


def test_shim_called_directly(work: Path) -> None:
    """As libtool and others call what -print-prog-name told them: PATH decides."""
    run("gcc", "-c", "main.c", "-o", "main.o", cwd=work, check=True)
    done = run(SHIMS / "ld", "-r", "main.o", "-o", "again.o", cwd=work)
    assert (done.returncode, done.stderr) == (0, "")
    assert "GNU ld" in run(SHIMS / "ld", "--version").stdout
    need("ld.gold")
    assert "GNU gold" in run(SHIMS / "ld.gold", "--version").stdout


def test_shims_do_not_call_each_other_forever(work: Path) -> None:
    """A second installation behind the first, each finding the other: the link is done once, by the first."""
    other = work / "other"
    for part in ("bin", "hugealign", "ld-scripts"):
        shutil.copytree(ROOT / part, other / part, ignore=shutil.ignore_patterns("__pycache__"))
    words = [HUGEALIGN, other / "bin" / "hugealign", "gcc", f"-B{SHIMS}/", f"-B{other}/hugealign/libexec/"]
    done = run(*words, "main.c", "-o", "main", cwd=work, HUGEALIGN_MIN_TEXT="0")
    assert (done.returncode, done.stderr) == (0, "")
    assert Elf(work / "main").faults() == []


def test_nothing_behind_the_shim(work: Path) -> None:
    empty = work / "empty"
    empty.mkdir()
    for tool in ("sh", "env"):
        (empty / tool).symlink_to(shutil.which(tool) or "")
    env = environment() | {"PATH": str(empty)}
    done = subprocess.run([SHIMS / "ld.mold", "x.o"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert done.stderr.startswith("hugealign: error: ld.mold: no such linker behind the shim")
    assert done.stderr.count("\n") == 1


def test_path_holds_only_the_shims() -> None:
    env = environment() | {"PATH": f"{SHIMS}:{SHIMS}/:{SHIMS}/../libexec"}
    done = subprocess.run(["/bin/sh", SHIMS / "ld.mold", "x.o"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert "no such linker behind the shim" in done.stderr


def test_one_word_form_links_too(work: Path) -> None:
    done = run(BIN / "hugealign-gcc", "main.c", "-o", "main", cwd=work, HUGEALIGN_MIN_TEXT="0")
    assert (done.returncode, done.stderr) == (0, "")
    assert Elf(work / "main").faults() == []


def test_linker_that_hugealign_does_not_know(work: Path) -> None:
    """An unknown linker is given the flags; if it takes offence, the plain link is done, and said."""
    directory = work / "strange"
    directory.mkdir()
    linker = directory / "ld"
    linker.write_text(
        '#!/bin/sh\ncase "$*" in\n*--version*) echo "strange linker 1.0"; exit ;;\n'
        "*max-page-size*) echo 'strange: what is max-page-size?' >&2; exit 3 ;;\nesac\nexec /usr/bin/ld \"$@\"\n"
    )
    linker.chmod(0o755)
    words = ("gcc", f"-B{directory}", "main.c", "-o", "main")
    done = run(HUGEALIGN, *words, cwd=work, HUGEALIGN_MIN_TEXT="0")
    assert done.returncode == 0
    assert done.stderr == (
        "hugealign: warning: main: linked without huge-page layout, because with it the linker said: "
        f"strange: what is max-page-size?{MORE_OF_A_LINK}\n"
    )
    assert run(work / "main").returncode == 0


def marked(directory: Path, name: str = "ld") -> Path:
    """Make *directory* with a linker *name* of its own, which is GNU ld."""
    directory.mkdir(parents=True)
    (directory / name).symlink_to("/usr/bin/ld.bfd")
    return directory / name


WAYS = {
    "a response file": ("@words", "-B{0}"),
    "a prefix": ("--prefix={0}",),
    "a prefix in two words": ("--prefix", "{0}"),
    "a toolchain": ("--gcc-toolchain={1}/toolchain",),
    "its environment": (),
}


@pytest.mark.parametrize("clang", ["clang-14", "clang-19"])
@pytest.mark.parametrize("way", WAYS)
def test_whatever_leads_clang_to_a_linker(way: str, clang: str, work: Path) -> None:
    """clang tells no child where it looks for programs, and many of its options decide that."""
    need(clang)
    if (way, clang) == ("a toolchain", "clang-14"):
        pytest.skip("clang 14 looks for no linker there")
    expected = marked(work / "mine")
    settings: dict[str, Any] = {"CCC_OVERRIDE_OPTIONS": f"#+-B{expected.parent}"} if way == "its environment" else {}
    words = [word.format(expected.parent, work) for word in WAYS[way]]
    if words[:1] == ["@words"]:
        (work / "words").write_text(words.pop() + "\n")
    if way == "a toolchain":
        for version in Path("/usr/lib/gcc/x86_64-linux-gnu").iterdir():
            lib = work / "toolchain" / "lib" / "gcc" / "x86_64-linux-gnu" / version.name
            lib.mkdir(parents=True)  # no link: clang finds programs by ".." from here
            for file in version.iterdir():
                (lib / file.name).symlink_to(file)
        expected = marked(work / "toolchain" / "x86_64-linux-gnu" / "bin")
    asked = run(clang, *words, "-print-prog-name=ld", cwd=work, **settings).stdout.strip()
    assert Path(os.path.normpath(asked)) == expected
    result = linker_of(clang, *words, "main.c", "-o", "main", cwd=work, **settings)
    assert Path(result).parent.resolve() == Path(asked).parent.resolve()


@pytest.mark.parametrize("clang", ["clang-14", "clang-19"])
def test_a_linker_named_after_the_target(clang: str, work: Path) -> None:
    need(clang)
    triple = run(clang, "-print-target-triple").stdout.strip()
    expected = marked(work / "mine", f"{triple}-ld")
    path = f"{expected.parent}:{environment()['PATH']}"
    assert linker_of(clang, "main.c", "-o", "main", cwd=work, PATH=path) == str(expected)


@pytest.mark.parametrize("words", [("@words",), ("--config", "./words")])
def test_a_target_named_in_a_file(words: tuple[str, ...], work: Path) -> None:
    need("clang-19", "aarch64-linux-gnu-ld")
    (work / "words").write_text("--target=aarch64-linux-gnu\n")
    result = linker_of("clang-19", *words, "main.c", "-o", "main", cwd=work)
    assert "aarch64-linux-gnu" in result


@pytest.mark.parametrize(
    "order", ["-fuse-ld=/usr/bin/ld.gold -fuse-ld=bfd", "--ld-path=/usr/bin/ld.gold --ld-path=ld.bfd"]
)
def test_the_last_option_for_a_linker_counts(order: str, work: Path) -> None:
    need("clang-19", "ld.gold")
    assert linker_of("clang-19", *order.split(), "main.c", "-o", "main", cwd=work).endswith("/ld.bfd")


def test_a_path_in_front_of_two_dashes(work: Path) -> None:
    """What follows them is an input."""
    need("clang-19", "ld.gold")
    words = ("clang-19", "-o", "main", "--ld-path=/usr/bin/ld.gold", "--", "main.c")
    assert linker_of(*words, cwd=work) == "/usr/bin/ld.gold"
