"""However a driver finds its linker, the one that runs through hugealign is the one that runs without it."""

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import HUGEALIGN, LLVM, Elf, environment, need, run

SHIMS = str(HUGEALIGN.parents[1] / "hugealign" / "libexec")
COMPILERS = ("gcc", "clang-14", "clang-19")


@dataclass(frozen=True)
class Way:
    """The words between the compiler and its inputs, and variables; {} is the directory that `place` fills."""

    words: str = ""
    environ: dict[str, str] = field(default_factory=dict)
    compiler: str = ""  # another than the bare name: {cc} is the path behind that


WAYS = {
    "nothing": Way(),
    "bfd": Way("-fuse-ld=bfd"),
    "gold": Way("-fuse-ld=gold"),
    "mold": Way("-fuse-ld=mold"),
    "lld, found or not": Way("-fuse-ld=lld"),
    "lld of a -B": Way("-fuse-ld=lld -B{}/mine"),
    "no such linker": Way("-fuse-ld=nowhere"),
    "-B": Way("-B{}/mine"),
    "-B with a slash": Way("-B{}/mine/"),
    "-B in two words": Way("-B {}/mine"),
    "-B that is relative": Way("-Bmine"),
    "-B that is the beginning of a name": Way("-B{}/mine/cross-"),
    "-B without a linker": Way("-B{}"),
    "two of -B": Way("-B{} -B{}/mine -B{}/other"),
    "--prefix": Way("--prefix={}/mine"),
    "--prefix in two words": Way("--prefix {}/mine"),
    "--ld-path": Way("--ld-path={}/mine/ld"),
    "--ld-path, a name": Way("--ld-path=ld.mold"),
    "--ld-path, a name in a -B": Way("--ld-path=ld.lld -B{}/mine"),
    "-fuse-ld, a path": Way("-fuse-ld={}/mine/ld"),
    "-no-canonical-prefixes": Way("-no-canonical-prefixes"),
    "-no-canonical-prefixes, lld": Way("-no-canonical-prefixes -fuse-ld=lld"),
    "-ccc-install-dir": Way("-ccc-install-dir {}/mine"),
    "-ccc-install-dir, lld": Way("-ccc-install-dir {}/mine -fuse-ld=lld"),
    "--gcc-toolchain": Way("--gcc-toolchain={}/gcc"),
    "--sysroot": Way("--sysroot={}/root"),
    "-m32, which is no such link": Way("-m32"),
    "a response file": Way("@{}/words"),
    "a response file, another prefix": Way("@{}/prefixes"),
    "a configuration file": Way("--config {}/words"),
    "a configuration file, another prefix": Way("--config {}/prefixes"),
    "called by a link": Way(compiler="{}/tools/{cc}"),
    "called by a link, lld": Way("-fuse-ld=lld", compiler="{}/tools/{cc}"),
    "called by a link, no prefixes": Way("-no-canonical-prefixes", compiler="{}/tools/{cc}"),
    "called by a link, no prefixes, lld": Way("-no-canonical-prefixes -fuse-ld=lld", compiler="{}/tools/{cc}"),
    "called by a relative link": Way(compiler="tools/{cc}"),
    "called by a link on PATH": Way(environ={"PATH": "{}/tools:{PATH}"}),
    "called by a link on PATH, no prefixes": Way("-no-canonical-prefixes", {"PATH": "{}/tools:{PATH}"}),
    "called cc": Way(compiler="{}/tools/cc-of-{cc}"),
    "a script": Way(compiler="{}/scripts/{cc}"),
    "a script, no prefixes": Way("-no-canonical-prefixes", compiler="{}/scripts/{cc}"),
    "a script with a -B": Way(compiler="{}/scripts/b-{cc}"),
    "COMPILER_PATH": Way(environ={"COMPILER_PATH": "{}/mine"}),
    "COMPILER_PATH, two": Way(environ={"COMPILER_PATH": "{}:{}/mine:{}/other"}),
    "COMPILER_PATH and -B": Way("-B{}/other", {"COMPILER_PATH": "{}/mine"}),
    "GCC_EXEC_PREFIX": Way(environ={"GCC_EXEC_PREFIX": "{}/mine/"}),
    "PATH": Way(environ={"PATH": "{}/mine:{PATH}"}),
    "PATH, an empty entry": Way(environ={"PATH": ":{PATH}"}),
    "PATH, a name with the target": Way(environ={"PATH": "{}/target:{PATH}"}),
    "CCC_OVERRIDE_OPTIONS": Way(environ={"CCC_OVERRIDE_OPTIONS": "#+-B{}/mine"}),
    "CCC_OVERRIDE_OPTIONS, another prefix": Way(environ={"CCC_OVERRIDE_OPTIONS": "#+-no-canonical-prefixes"}),
    "two dashes": Way("-no-canonical-prefixes -o out --"),
}
#: What the driver is called through.
FRONTS = {"hugealign": (HUGEALIGN,), "hugealign build": (HUGEALIGN, "build", "--")}


def linker(path: Path, real: str = "/usr/bin/ld.bfd") -> None:
    """Make a linker at *path* that is a script, so that it is not the file that it runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    path.chmod(0o755)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with linkers, and with compilers under other names."""
    need("strace", "clang-19", "ld.gold", "mold")
    place = tmp_path_factory.mktemp("linkers")
    (place / "main.c").write_text("int main(void) { return 0; }\n")
    run("gcc", "-c", "main.c", cwd=place, check=True)
    for name in ("mine/ld", "mine/cross-ld", "other/ld", "tools/ld", "ld"):
        linker(place / name)
    for directory in ("mine", "tools"):
        linker(place / directory / "ld.lld", f"{LLVM['lld14']}/ld.lld")
    for vendor in ("pc", "unknown"):
        linker(place / "target" / f"x86_64-{vendor}-linux-gnu-ld")
    linker(place / "gcc" / "x86_64-linux-gnu" / "bin" / "ld")
    for version in Path("/usr/lib/gcc/x86_64-linux-gnu").iterdir():
        for copy in (place / "gcc", place / "root" / "usr"):
            lib = copy / "lib" / "gcc" / "x86_64-linux-gnu" / version.name
            lib.mkdir(parents=True)  # not a link: clang finds programs by ".." from here
            for file in version.iterdir():
                (lib / file.name).symlink_to(file)
    linker(place / "root" / "usr" / "x86_64-linux-gnu" / "bin" / "ld")
    (place / "words").write_text(f"-B{place}/mine\n")
    (place / "prefixes").write_text("-no-canonical-prefixes -fuse-ld=lld\n")
    (place / "scripts").mkdir()
    for name in COMPILERS:
        if path := shutil.which(name):
            (place / "tools" / name).symlink_to(path)
            (place / "tools" / f"cc-of-{name}").symlink_to(path)
            for script, more in ((name, ""), (f"b-{name}", f" -B{place}/mine")):
                (place / "scripts" / script).write_text(f'#!/bin/sh\nexec {path}{more} "$@"\n')
                (place / "scripts" / script).chmod(0o755)
    return place


def ran(place: Path, *words: object, **environ: Any) -> tuple[int, list[str], str]:
    """Return the status of a command, the linkers that it ran, each once, and its messages without temporary names."""
    (place / "out").unlink(missing_ok=True)
    trace = place / "trace"
    command = ("strace", "-f", "-qq", "-z", "-s", "4096", "-e", "trace=execve", "-o", trace, *words)
    done = run(*command, cwd=place, HUGEALIGN_MIN_TEXT="0", **environ)
    started = re.findall(r'execve\("([^"]*)"', trace.read_text())
    linkers = [path for path in started if re.search(r"(?:^|[/-])(?:ld|mold)(?:[.-][\w.-]*)?$", path)]
    found = dict.fromkeys(path.replace("//", "/").replace("/./", "/") for path in linkers if not path.startswith(SHIMS))
    return done.returncode, list(found), re.sub(r"/tmp/[\w.-]+", "/tmp/NAME", done.stderr)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_linker_of_the_plain_driver_runs(compiler: str, way: str, place: Path) -> None:
    need(compiler)
    chosen = WAYS[way]
    path = environment()["PATH"]

    def filled(text: str) -> str:
        return text.replace("{}", str(place)).replace("{cc}", compiler).replace("{PATH}", path)

    driver = filled(chosen.compiler or compiler)
    words = (driver, *filled(chosen.words).split(), "main.o", *(() if "-o out" in chosen.words else ("-o", "out")))
    environ: dict[str, Any] = {name: filled(value) for name, value in chosen.environ.items()}
    plain = ran(place, *words, **environ)
    for front in FRONTS.values():
        ours = ran(place, *front, *words, **environ)
        assert ours[0] == plain[0], front
        if plain[0] == 0:
            assert plain[1], "no linker seen"
            assert ours[1] == plain[1], front
        # About a linker that is missing the shim has the message, where the launcher does not see the request.
        if plain[0] == 0 or (len(front) == 1 and "@" not in chosen.words):
            assert ours[2] == plain[2]
    if plain[0] == 0 and (way, compiler) != ("a script with a -B", "gcc"):  # that comes before the one of the shims
        run(HUGEALIGN, *words, cwd=place, check=True, HUGEALIGN_MIN_TEXT="0", **environ)
        assert Elf(place / "out").faults(exact=way != "gold") == []
