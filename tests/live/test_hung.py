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
from tests.live.filesystems import MissingError
from tests.live.programs import hugealign
from tests.support import HUGEALIGN, environment

Hung = tuple[Path, subprocess.Popen[bytes], fuse.Server]


@pytest.fixture
def hung() -> Iterator[Hung]:
    """A file that no longer answers, and a process that runs it."""
    with contextlib.ExitStack() as stack:
        at = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hugealign-hung-")))
        try:
            server = stack.enter_context(fuse.mounted(Path(sys.executable).resolve().read_bytes(), at))
        except MissingError as missing:
            pytest.skip(str(missing))
        path = at / "prog"
        sleeper = "import time; print(flush=True); time.sleep(99)"
        home = {"PYTHONHOME": sys.base_prefix}
        process = subprocess.Popen([path, "-c", sleeper], stdout=subprocess.PIPE, env=environment(**home))
        stack.callback(process.wait)
        stack.callback(process.kill)
        assert process.stdout
        assert process.stdout.readline() == b"\n"
        server.hang()
        stack.callback(server.end)  # before anybody is waited for
        yield path, process, server


def test_doctor_does_not_wait_for_it(hung: Hung) -> None:
    assert hung[1].poll() is None
    assert hugealign("doctor").returncode in (0, 1)


@pytest.mark.parametrize("options", [(), ("-v",), ("--libs",), ("--json",)])
def test_ps_does_not_wait_for_it(options: tuple[str, ...], hung: Hung) -> None:
    done = hugealign("ps", *options, str(hung[1].pid))
    assert done.returncode in (0, 1), done.stderr
    assert "prog" in done.stdout


@pytest.mark.parametrize("words", [("ps",), ("ps", "--libs"), ("top", "--once")])
def test_library_that_no_longer_answers(words: tuple[str, ...], tmp_path: Path) -> None:
    """It is large, and its program is not: so that both commands have something to say about it."""
    big, loader = tmp_path / "big.so", tmp_path / "loader"
    source = 'void f(void) { __asm__(".rept 3000000\\n nop\\n .endr"); }'
    subprocess.run(["gcc", "-shared", "-fPIC", "-xc", "-", "-o", str(big)], input=source, text=True, check=True)
    source = (
        "#include <dlfcn.h>\n#include <unistd.h>\n"
        'int main(int c, char **v) { if (dlopen(v[c - 1], 2) && write(1, "\\n", 1) == 1) pause(); }'
    )
    subprocess.run(["gcc", "-xc", "-", "-o", str(loader)], input=source, text=True, check=True)
    with contextlib.ExitStack() as stack:
        at = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hugealign-hung-")))
        try:
            server = stack.enter_context(fuse.mounted(big.read_bytes(), at))
        except MissingError as missing:
            pytest.skip(str(missing))
        process = subprocess.Popen([loader, at / "prog"], stdout=subprocess.PIPE)
        stack.callback(process.wait)
        stack.callback(process.kill)
        assert process.stdout
        assert process.stdout.readline() == b"\n"
        server.hang()
        stack.callback(server.end)
        done = hugealign(*words, *([str(process.pid)] if words[0] == "ps" else []))
        assert done.returncode in (0, 1), done.stderr
        assert "prog" in done.stdout


def test_verify_waits_as_anything_does_that_reads_the_file(hung: Hung) -> None:
    """And goes on once an answer comes: here, that the file system is gone."""
    with subprocess.Popen([HUGEALIGN, "verify", hung[0]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        time.sleep(1)
        assert process.poll() is None
        hung[2].end()
        assert process.wait(10) == 3
        assert process.stdout
        assert b"could not check" in process.stdout.read()
