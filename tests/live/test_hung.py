"""A file system that no longer answers, as FUSE and NFS do now and then: who waits for it, and who must not."""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import fuse
from tests.live.programs import ROOT, WINDOWS, Programs, hugealign, running
from tests.support import HUGEALIGN, environment, worded

Hung = tuple[Path, subprocess.Popen[bytes], fuse.Server]


@contextlib.contextmanager
def hanging(file: Path, *words: str | Path) -> Iterator[Hung]:
    """Run *words*, which map a copy of *file*, their ``{}``, and say so; then the copy no longer answers."""
    with contextlib.ExitStack() as stack:
        at = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hugealign-hung-")))
        server = stack.enter_context(fuse.mounted(file.read_bytes(), at))
        path = at / "prog"
        command = [path if word == "{}" else word for word in words]
        home = environment(PYTHONHOME=sys.base_prefix)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=home)
        stack.callback(process.wait)
        stack.callback(process.kill)
        assert process.stdout
        assert process.stdout.readline() == b"\n"
        server.hang()
        stack.callback(server.end)  # before anybody is waited for
        yield path, process, server
        assert not server.gave_up()


@pytest.fixture
def hung() -> Iterator[Hung]:
    """A file that no longer answers, and a process that runs it."""
    sleeper = "import time; print(flush=True); time.sleep(99)"
    with hanging(Path(sys.executable).resolve(), "{}", "-c", sleeper) as result:
        yield result


def test_doctor_does_not_wait_for_it(hung: Hung) -> None:
    assert hung[1].poll() is None
    assert hugealign("doctor").returncode in (0, 1)


@pytest.mark.parametrize("options", [(), ("-v",), ("--all",), ("--json",)])
def test_ps_does_not_wait_for_it(options: tuple[str, ...], hung: Hung) -> None:
    done = hugealign("ps", *options, str(hung[1].pid))
    assert done.returncode in (0, 1), done.stderr
    assert "prog" in done.stdout


@pytest.mark.parametrize("words", [("ps",), ("ps", "--all"), ("top",)])
def test_library_that_no_longer_answers(words: tuple[str, ...], tmp_path: Path) -> None:
    """It is large, and its program is not: so that both commands have something to say about it."""
    big, loader = tmp_path / "big.so", tmp_path / "loader"
    source = 'void f(void) { __asm__(".skip 3000000, 0x90"); }'
    subprocess.run(["gcc", "-shared", "-fPIC", "-xc", "-", "-o", str(big)], input=source, text=True, check=True)
    source = (
        "#include <dlfcn.h>\n#include <unistd.h>\n"
        'int main(int c, char **v) { if (dlopen(v[c - 1], 2) && write(1, "\\n", 1) == 1) pause(); }'
    )
    subprocess.run(["gcc", "-xc", "-", "-o", str(loader)], input=source, text=True, check=True)
    with hanging(big, loader, "{}") as (_, process, _):
        done = hugealign(*words, *([str(process.pid)] if words[0] == "ps" else []))
        assert done.returncode in (0, 1), done.stderr
        assert "prog" in done.stdout


@pytest.fixture(params=["rb", "r+b"])
def held(request: pytest.FixtureRequest) -> Iterator[int]:
    """A process that has a file open which no longer answers."""
    with contextlib.ExitStack() as stack:
        at = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hugealign-hung-")))
        server = stack.enter_context(fuse.mounted(b"data", at))
        with (at / "prog").open(request.param) as file:
            process = subprocess.Popen(["sleep", "99"], stdin=file)
        stack.callback(process.wait)
        stack.callback(process.kill)
        server.hang()
        stack.callback(server.end)
        yield process.pid
        assert not server.gave_up()


@pytest.mark.parametrize("words", [("warm",), ("run", "--how=in-place", "-v", "--")])
def test_reason_does_not_wait_for_what_a_process_has_open(
    words: tuple[str, ...], held: int, programs: Programs
) -> None:
    path = programs.copy("held")
    with running(path, "5") as user:
        done = hugealign(*words, path)
        if done.stdout.startswith(f"{path}: {WINDOWS} of"):
            pytest.skip("a program in use is no obstacle here")
        assert f"{worded('cache.in-use', process=user.pid, name='held')}" in done.stdout + done.stderr
    assert Path(f"/proc/{held}").exists()


def test_writer_is_found_beside_a_file_that_no_longer_answers(held: int, programs: Programs) -> None:
    path = programs.copy("written")
    code = (
        "import sys; from hugealign.pagecache import diagnose, warming\n"
        "found = diagnose.after_warming(0, 'it', warming.Warmth((False,)), 0)\n"
        "print(found.code, found.facts['process'])"
    )
    with path.open("r+b") as file:
        writer = subprocess.Popen(["sleep", "99"], stdin=file)
    try:
        assert held < writer.pid  # so it is in the way
        with path.open("rb") as file:
            done = subprocess.run(
                [sys.executable, "-c", code],
                stdin=file,
                capture_output=True,
                text=True,
                cwd=ROOT,
                check=True,
            )
    finally:
        writer.kill()
        writer.wait()
    assert done.stdout == f"cache.open-for-writing {writer.pid}\n"


@pytest.fixture(params=[0, 1 << 20])
def staged(request: pytest.FixtureRequest, programs: Programs) -> Iterator[tuple[Path, int]]:
    """A file that no longer answers, and a process that runs a copy of it, where each look-up of the name asks.

    Or where none does: then both files have the same inode number.
    """
    with contextlib.ExitStack() as stack:
        at = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hugealign-hung-")))
        server = stack.enter_context(fuse.mounted(programs.good.read_bytes(), at, request.param))
        process = stack.enter_context(running(HUGEALIGN, "run", "--how=stage", "--", at / "prog", "5"))
        server.hang()
        stack.callback(server.end)
        yield at / "prog", process.pid
        assert not server.gave_up()


@pytest.mark.parametrize("words", [("ps",), ("ps", "-v", "--all"), ("ps", "--json"), ("top",)])
def test_copy_of_a_file_that_no_longer_answers(words: tuple[str, ...], staged: tuple[Path, int]) -> None:
    path, pid = staged
    done = hugealign(*words, *([str(pid)] if words[0] == "ps" else []))
    assert done.returncode == 0, done.stderr
    assert str(path) in done.stdout


def test_verify_waits_as_anything_does_that_reads_the_file(hung: Hung) -> None:
    """And goes on once an answer comes: here, that the file system is gone."""
    with subprocess.Popen([HUGEALIGN, "verify", hung[0]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        time.sleep(1)
        assert process.poll() is None
        hung[2].end()
        assert process.wait() == 3
        assert process.stdout
        assert b"could not check" in process.stdout.read()
