"""`hugealign build -- COMMAND`: COMPILER_PATH alone leads the compilers to the shims, and nothing else changes."""

import shlex
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from tests.build.projects import EVEN_IF_SMALL, laid_out, program, quiet, shims
from tests.link.bulk import bulk_object
from tests.support import HUGEALIGN, LLVM, Elf, environment, need, run

BUILD = (HUGEALIGN, "build", "--")
#: compiler and linker, without a -B: that would go past COMPILER_PATH
DRIVERS = (
    "gcc",
    "gcc -fuse-ld=bfd",
    "gcc -fuse-ld=gold",
    "gcc -fuse-ld=mold",
    "gcc -fuse-ld=lld",
    "clang-14",
    "clang-14 -fuse-ld=lld",
    "clang-19 -fuse-ld=bfd",
    "clang-19 -fuse-ld=mold",
    "clang-19 -fuse-ld=lld",
)
KINDS = {"program": "", "static": "-static", "shared": "-shared -fPIC", "LTO": "-flto -O1"}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = program(tmp_path_factory.mktemp("build"))
    bulk_object(directory)
    return directory


def kinds(driver: str) -> list[str]:
    """The kinds of link that *driver* can do."""
    lto = driver in ("gcc", "gcc -fuse-ld=bfd", "gcc -fuse-ld=gold", "gcc -fuse-ld=mold") or driver.endswith("=lld")
    return [kind for kind in KINDS if kind != "LTO" or (lto and driver != "gcc -fuse-ld=lld")]


@pytest.mark.parametrize(("driver", "kind"), [(driver, kind) for driver in DRIVERS for kind in kinds(driver)])
def test_compiler_path_leads_to_the_shim(driver: str, kind: str, work: Path) -> None:
    compiler, *words = driver.split()
    linker = words[0].removeprefix("-fuse-ld=") if words else "bfd"
    path = f"{LLVM['lld19']}:{environment()['PATH']}" if driver == "gcc -fuse-ld=lld" else environment()["PATH"]
    need(compiler, {"lld": f"{LLVM['lld19']}/ld.lld", "mold": "mold"}.get(linker, f"ld.{linker}"))
    name = f"{driver.replace(' ', '-')}-{kind}" + (".so" if kind == "shared" else "")
    words += [*KINDS[kind].split(), "main.c", "bulk3000.o", "-o", name]
    done = run(*BUILD, compiler, *words, cwd=work, PATH=path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    laid_out(work / name, exact=linker != "gold")
    assert Elf(work / name).type == ("ET_EXEC" if kind == "static" else "ET_DYN")


@pytest.mark.parametrize("driver", ["gcc", "clang-19"])
def test_small_program_is_the_same(driver: str, work: Path) -> None:
    need(driver)
    words = (driver, "small.c", "-o")
    (work / "small.c").write_text("int main(void) { return 0; }\n")
    quiet(*BUILD, *words, "one", cwd=work)
    quiet(*words, "other", cwd=work)
    assert (work / "one").read_bytes() == (work / "other").read_bytes()


@pytest.mark.parametrize("words", ["gcc -B/usr/libexec/mold", "clang-19 -fuse-ld=lld --ld-path=/usr/bin/ld.mold"])
def test_what_goes_past_the_shim_just_links(words: str, work: Path) -> None:
    need(words.split(maxsplit=1)[0], "mold")
    quiet(*BUILD, *words.split(), "main.c", "bulk3000.o", "-o", "past", cwd=work)
    assert run(work / "past").returncode == 0
    assert Elf(work / "past").faults()


def test_disabled(work: Path) -> None:
    quiet(*BUILD, "gcc", "main.c", "bulk3000.o", "-o", "disabled", cwd=work, HUGEALIGN_DISABLE="1")
    quiet("gcc", "main.c", "bulk3000.o", "-o", "bare", cwd=work)
    assert (work / "disabled").read_bytes() == (work / "bare").read_bytes()
    assert "COMPILER_PATH" not in run(*BUILD, "env", HUGEALIGN_DISABLE="1").stdout


def test_page_size(work: Path) -> None:
    quiet(HUGEALIGN, "--page-size=4M", "build", "gcc", "main.c", "bulk3000.o", "-o", "four", cwd=work)
    assert Elf(work / "four").faults(page=4 << 20) == []


def test_compiler_path_of_the_user_comes_second(tmp_path: Path) -> None:
    """The user's ld is the one behind the shim."""
    need("mold")
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "ld").symlink_to(shutil.which("mold") or "")
    settings = EVEN_IF_SMALL | {"COMPILER_PATH": str(tmp_path), "HUGEALIGN_DEBUG": "1"}
    for compiler in ("gcc", "clang-19"):
        need(compiler)
        done = run(*BUILD, compiler, "main.c", "-o", "main", cwd=tmp_path, **settings)
        assert done.returncode == 0
        assert f"{tmp_path}/ld as mold" in done.stderr
        assert Elf(tmp_path / "main").faults() == []


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C"}, {"LC_CTYPE": "C"}, {"LANG": "C"}])
def test_environment_is_the_users_but_for_compiler_path(locale: dict[str, str]) -> None:
    given = {"PATH": environment()["PATH"], "ODD": "a\nb=c ", "PWD": "/", **locale}
    done = subprocess.run([*BUILD, "env", "-0"], env=given, cwd="/", capture_output=True, text=True, check=True)
    got = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
    assert got == given | {"COMPILER_PATH": shims()}
    assert run(*BUILD, "printenv", "COMPILER_PATH", COMPILER_PATH="/x:").stdout == f"{shims()}:/x:\n"


@pytest.mark.parametrize(
    "words",
    [
        "build -- sh -c 'echo \"$@\"; exit 7' - -- -h --help ''",
        "build sh -c 'echo \"$@\"; exit 7' - -- -h --help ''",
    ],
)
def test_words_and_status_are_the_commands(words: str) -> None:
    done = run(HUGEALIGN, *shlex.split(words))
    assert (done.returncode, done.stdout, done.stderr) == (7, "-- -h --help \n", "")


def test_signals_are_the_commands() -> None:
    assert run(*BUILD, "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM
    assert run(*BUILD, "sh", "-c", "kill -PIPE $$").returncode == -signal.SIGPIPE
    argv = shlex.join([*map(str, BUILD), "sh", "-c", "echo $$"])
    done = run("sh", "-c", f"echo $$; exec {argv}")
    assert len(set(done.stdout.split())) == 1, "another process"


def test_commands_that_cannot_be_run(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")
    (tmp_path / "odd\nname").mkdir()
    for words, status, message in (
        (("no-such-command",), 127, "no-such-command: command not found"),
        ((tmp_path / "absent",), 127, f"{tmp_path}/absent: command not found"),
        ((plain,), 126, f"{plain}: not executable: Permission denied"),
        ((tmp_path,), 126, f"{tmp_path}: is a directory"),
        ((tmp_path / "odd\nname",), 126, f"{tmp_path}/odd\\nname: is a directory"),
        ((), 2, "build: no command; example: hugealign build -- make"),
    ):
        done = run(*BUILD, *words)
        assert (done.returncode, done.stdout) == (status, "")
        assert done.stderr == f"hugealign: error: {message}\n"
    plain.chmod(plain.stat().st_mode | stat.S_IXUSR)
    assert run(*BUILD, plain).returncode == 0


def test_settings_that_mean_nothing() -> None:
    done = run(*BUILD, "true", HUGEALIGN_MIN_TEXT="many")
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.startswith("hugealign: error: HUGEALIGN_MIN_TEXT: ")
    assert done.stderr.count("\n") == 1


def test_installation_in_a_place_that_compiler_path_cannot_name(tmp_path: Path) -> None:
    place = tmp_path / "with:colon"
    root = HUGEALIGN.parents[1]
    for part in ("bin", "hugealign"):
        shutil.copytree(root / part, place / part, ignore=shutil.ignore_patterns("__pycache__"))
    done = run(place / "bin" / "hugealign", "build", "true")
    assert (done.returncode, done.stderr.count("\n")) == (125, 1)
    assert "because of the colon" in done.stderr
