"""What packagers do to a file after the link: the layout survives, and the program runs."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import HUGEALIGN, Elf, Toolchain, need, run

LINKERS = ("gcc-bfd", "gcc-lld14", "gcc-lld19", "gcc-mold", "gcc-gold")
#: Commands that read {i} and write {o}.
TOOLS = {
    "strip": "strip {i} -o {o}",
    "strip -g": "strip -g {i} -o {o}",
    "strip --strip-unneeded": "strip --strip-unneeded {i} -o {o}",
    "llvm-strip-14": "llvm-strip-14 {i} -o {o}",
    "llvm-strip-19": "llvm-strip-19 {i} -o {o}",
    "llvm-strip-19 -g": "llvm-strip-19 -g {i} -o {o}",
    "eu-strip": "eu-strip {i} -o {o}",
    "eu-strip -f": "eu-strip -f {o}.debug {i} -o {o}",
    "objcopy --strip-debug": "objcopy --strip-debug {i} {o}",
    "objcopy --compress-debug-sections": "objcopy --compress-debug-sections {i} {o}",
    "objcopy --add-gnu-debuglink": "objcopy --add-gnu-debuglink={i} {i} {o}",
    "objcopy --remove-section": "objcopy --remove-section=.comment {i} {o}",
    "llvm-objcopy-19": "llvm-objcopy-19 --strip-debug {i} {o}",
    "patchelf --set-rpath": "patchelf --set-rpath /no/such/directory --output {o} {i}",
    "patchelf --set-interpreter": "patchelf --set-interpreter /lib64/ld-linux-x86-64.so.2 --output {o} {i}",
    "patchelf --add-needed": "patchelf --add-needed libm.so.6 --output {o} {i}",
    "chrpath": "cp {i} {o} && chrpath -r /other {o}",
    "dwz": "dwz -o {o} {i}",
    "install -s": "install -s {i} {o}",
    "cp --sparse=always": "cp --sparse=always {i} {o}",
    "cp --sparse=never": "cp --sparse=never {i} {o}",
    "tar": "tar -C {d} -cf {o}.tar in && mkdir {o}.d && tar -C {o}.d -xf {o}.tar && mv {o}.d/in {o}",
    "tar -S": "tar -C {d} -cSf {o}.tar in && mkdir {o}.d && tar -C {o}.d -xf {o}.tar && mv {o}.d/in {o}",
    "cpio": "cd {d} && echo in | cpio -o -H newc >{o}.c && mkdir {o}.d && cd {o}.d && cpio -i <{o}.c && mv in {o}",
}
#: Losses that `verify` finds, and which the documentation names.
LOST: dict[tuple[str, str], str] = {}


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory, bulk: Path, features: Path, toolchains: dict[str, Toolchain]
) -> Callable[[str], Path]:
    """A function that links the program with debug information and an rpath, once per linker."""
    programs: dict[str, Path] = {}
    directory = tmp_path_factory.mktemp("made")
    (directory / "debug.c").write_text("int debug(int x) { return x + 1; }\n")
    run("gcc", "-g", "-c", directory / "debug.c", "-o", directory / "debug.o", check=True)

    def make(name: str) -> Path:
        if name not in programs:
            toolchain = toolchains[name].needed()
            program = directory / name
            words = (features, bulk, directory / "debug.o", "-Wl,-rpath,/no/such/path", "-o", program)
            run(HUGEALIGN, toolchain.cxx, *toolchain.flags, *words, check=True)
            programs[name] = program
        return programs[name]

    return make


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", LINKERS)
def test_layout_survives(name: str, tool: str, made: Callable[[str], Path], tmp_path: Path) -> None:
    program = made(name)
    line = TOOLS[tool]
    needed = line.split("&& ")[1].split()[0] if line.startswith("cp {i} {o} && ") else line.split()[0]
    if tool == "cpio":
        needed = tool
    need(needed)
    shutil.copy(program, tmp_path / "in")
    output = tmp_path / "out"
    line = line.format(i=f"'{tmp_path}/in'", o=f"'{output}'", d=f"'{tmp_path}'")
    done = run("sh", "-c", line)
    assert done.returncode == 0, done.stderr
    assert run(output).returncode == 0
    faults = Elf(output).faults(exact=name != "gcc-gold")
    if reason := LOST.get((name, tool)):
        assert faults
        assert run(HUGEALIGN, "verify", output).returncode == 1
        pytest.skip(f"lost, and found by verify: {reason}")
    assert faults == []
    assert run(HUGEALIGN, "verify", output).returncode == 0
