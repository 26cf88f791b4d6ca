"""Large links, which sh/shim.sh starts before Python has loaded: the same promises (test_faults.py has more)."""

import shutil
import subprocess
from pathlib import Path

import pytest

from hugealign.elf.machines import X86_64
from hugealign.elf.objectfile import Pad, pad_object
from tests.link.bulk import LARGE
from tests.support import HUGEALIGN, ROOT, Elf, Toolchain, environment, need, run

LINKERS = ("gcc-bfd", "gcc-lld14", "gcc-lld19", "clang19-lld19", "gcc-mold")


@pytest.fixture(params=LINKERS)
def linker(request: pytest.FixtureRequest, toolchains: dict[str, Toolchain]) -> Toolchain:
    return toolchains[request.param].needed()


@pytest.fixture
def main(tmp_path: Path) -> Path:
    total = LARGE * (LARGE - 1) // 2 % (1 << 32)
    (tmp_path / "main.c").write_text(f"unsigned big_sum(void); int main(void) {{ return big_sum() != {total}u; }}\n")
    run("gcc", "-c", tmp_path / "main.c", "-o", tmp_path / "main.o", check=True)
    return tmp_path / "main.o"


@pytest.mark.parametrize("mode", ["-pie", "-no-pie", "-static"])
def test_layout(mode: str, linker: Toolchain, main: Path, large: Path, tmp_path: Path) -> None:
    done = run(HUGEALIGN, *linker.command(mode, main, large, "-Wl,-rpath,/x", "-o", tmp_path / "out"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert Elf(tmp_path / "out").faults() == []
    assert run(tmp_path / "out").returncode == 0


def test_it_is_started_early_and_not_run_twice(main: Path, large: Path, tmp_path: Path) -> None:
    """A linker that writes down how it is called."""
    (tmp_path / "bin").mkdir()
    for name in ("ld", "ld.bfd"):
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\necho "$PPID $*" >>{tmp_path}/calls\nexec /usr/bin/ld "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "bin" / "ld").unlink()
    (tmp_path / "bin" / "ld").hardlink_to(tmp_path / "bin" / "ld.bfd")
    run(HUGEALIGN, "gcc", f"-B{tmp_path / 'bin'}", main, large, "-o", tmp_path / "out", check=True)
    (call,) = (tmp_path / "calls").read_text().splitlines()
    assert "pad-x86_64.o -z max-page-size=0x200000 -z separate-code" in call
    assert Elf(tmp_path / "out").faults() == []


def test_linker_has_our_descriptors(main: Path, large: Path, tmp_path: Path) -> None:
    """GNU make hands its jobserver on as descriptors 3 and 4, which link-time optimisation asks."""
    (tmp_path / "bin").mkdir()
    linker = tmp_path / "bin" / "ld.bfd"
    linker.write_text(f'#!/bin/sh\nreadlink /proc/$$/fd/3 >>{tmp_path}/third\nexec /usr/bin/ld.bfd "$@"\n')
    linker.chmod(0o755)
    (tmp_path / "bin" / "ld").hardlink_to(linker)
    words = ("gcc", f"-B{tmp_path / 'bin'}", main, large, "-o", tmp_path / "out")
    run("sh", "-c", 'exec 3<"$1"; shift; exec "$@"', "sh", main, HUGEALIGN, *words, check=True)
    assert (tmp_path / "third").read_text() == f"{main}\n"


def test_large_objects_and_little_text(linker: Toolchain, tmp_path: Path) -> None:
    """Five megabytes of data and a hello: started with the layout, seen to be small, linked again without it."""
    (tmp_path / "data.c").write_text("char data[5 << 20] = {1}; int main(void) { return data[1]; }\n")
    run("gcc", "-c", tmp_path / "data.c", "-o", tmp_path / "data.o", check=True)
    run(*linker.command(tmp_path / "data.o", "-o", tmp_path / "out"), check=True)
    plain = (tmp_path / "out").read_bytes()
    done = run(HUGEALIGN, *linker.command(tmp_path / "data.o", "-o", tmp_path / "out"), check=True)
    assert done.stderr == ""
    assert (tmp_path / "out").read_bytes() == plain


@pytest.mark.parametrize(
    "words", [("-nostdlib", "-r", "-no-pie"), ("-Wl,-Ttext-segment=0x10001000", "-no-pie"), ("-o", "/dev/null")]
)
def test_links_to_keep_out_of(words: tuple[str, ...], main: Path, large: Path, tmp_path: Path) -> None:
    for name, wrap in (("plain", ()), ("out", (HUGEALIGN,))):
        run(*wrap, "gcc", main, large, "-o", tmp_path / name, *words, check=True)
    if "/dev/null" not in words:
        assert (tmp_path / "plain").read_bytes() == (tmp_path / "out").read_bytes()
    assert Path("/dev/null").is_char_device()


def test_installation_that_does_not_load(main: Path, large: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for part in ("bin", "hugealign", "ld-scripts"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "hugealign" / "settings.py").write_text("broken on purpose\n")
    done = run(copy / "bin" / "hugealign", "gcc", main, large, "-o", tmp_path / "out")
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert run(tmp_path / "out").returncode == 0


def test_pad_object_is_what_the_generator_writes() -> None:
    assert (ROOT / "ld-scripts" / "pad-x86_64.o").read_bytes() == pad_object(Pad(X86_64, ".hugealign.pad"))


def test_an_output_on_stdout(main: Path, large: Path, tmp_path: Path) -> None:
    """LLD writes the program to stdout for ``-o -``, where the messages of a started link go to stderr."""
    need("clang-19")

    def linked(*front: object) -> bytes:
        words = [*map(str, front), "clang-19", "-fuse-ld=lld", str(main), str(large), "-o", "-"]
        done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, check=True)
        assert done.stderr == b""
        return done.stdout

    plain = linked()
    (tmp_path / "out").write_bytes(linked(HUGEALIGN))
    (tmp_path / "out").chmod(0o755)
    assert plain[:4] == b"\x7fELF"
    assert run(tmp_path / "out").returncode == 0


def test_ignored_signals_stay_ignored(linker: Toolchain, main: Path, large: Path, tmp_path: Path) -> None:
    """systemd starts services with SIGPIPE ignored; Python ignores it anyway, and no linker is to inherit that."""
    out = tmp_path / "out"

    def fails(before: str, *front: object) -> bool:
        words = [*front, *linker.command(main, large, "-Wl,--trace", "-o", out)]
        script = f'{before}; "$@" 2>&1 | true; exit ${{PIPESTATUS[0]}}'
        return run("bash", "-c", script, "bash", *words).returncode != 0

    assert fails(":", HUGEALIGN) == fails(":")
    assert fails("trap '' PIPE", HUGEALIGN) <= fails("trap '' PIPE")  # LLD takes it for an error of its own


def linking_python() -> str:
    """Return the Python that links."""
    return run("sh", "-c", f'. {ROOT}/hugealign/sh/python.sh; find_python /; echo "$python"').stdout.strip()


def unusable_library(directory: Path) -> dict[str, str]:
    """Return the setting that gives Python an empty library for one that it needs."""
    directory.mkdir()
    run("gcc", "-shared", "-x", "c", "/dev/null", "-o", directory / "libexpat.so.1", check=True)
    settings = {"LD_LIBRARY_PATH": str(directory)}
    if run(linking_python(), "-c", "", env=environment(**settings)).returncode == 0:
        pytest.skip(f"{linking_python()} does without libexpat")
    return settings


@pytest.mark.parametrize("settings", [{}, {"HUGEALIGN_PAGE_SIZE": "2M"}], ids=["started early", "by Python"])
def test_libraries_for_the_linker_alone(settings: dict[str, str], main: Path, large: Path, tmp_path: Path) -> None:
    """LD_LIBRARY_PATH has an old library that Python needs, and a new one that GNU ld needs from there."""
    settings = settings | unusable_library(tmp_path / "lib")
    (tmp_path / "empty.c").touch()
    run("gcc", "-shared", tmp_path / "empty.c", "-o", tmp_path / "lib" / "libinner.so", check=True)
    outer = ("gcc", "-shared", "-Wl,--no-as-needed", tmp_path / "empty.c", f"-L{tmp_path / 'lib'}", "-linner")
    run(*outer, "-o", tmp_path / "libouter.so", check=True)
    words = ("gcc", "-Wl,--no-as-needed", main, large, tmp_path / "libouter.so", "-o", tmp_path / "out")
    assert "libinner.so, needed by" in run(*words).stderr
    done = run(HUGEALIGN, *words, env=environment(**settings))
    assert (done.returncode, done.stderr) == (0, "")
    assert Elf(tmp_path / "out").faults() == []
    # What is loaded before all other libraries may need some of these, so Python gets all.
    done = run(HUGEALIGN, *words, env=environment(**settings, LD_PRELOAD="libinner.so"))
    why = f"{linking_python()} does not start with this LD_LIBRARY_PATH"
    assert (done.returncode, done.stderr) == (0, f"hugealign: warning: {why}: linked without hugealign\n")
    assert run(tmp_path / "out", env=environment(**settings)).returncode == 0
