"""Several processes at work on one command line, and what becomes of them when one is interrupted or killed."""

import contextlib
import gzip
import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import HUGEALIGN, environment, run
from tests.trees import PROGRAM, make


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make(tmp_path)


def test_lists_on_the_command_line(tree: Path) -> None:
    names = b"".join(os.fsencode(tree / name) + b"\0" for name in ("z", "\udcff\nodd"))
    words = [str(HUGEALIGN), "verify", "-0", "-"]
    done = subprocess.run(words, input=names, capture_output=True, env=environment(), check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\xff\\nodd: ok" in done.stdout


def test_reports_are_the_same_from_other_processes(tree: Path) -> None:
    """Findings survive the way through the pipe."""
    words = [HUGEALIGN, "verify", "--json", "--min-text", "1", "-r", tree]
    alone, shared = (run(*words, "-j", jobs) for jobs in ("1", "3"))
    assert alone.returncode == shared.returncode == 1
    assert alone.stdout == shared.stdout
    assert "HA001" in alone.stdout


def children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def below(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from below(child)


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """An archive that takes seconds, between files that take none."""
    shutil.copy(PROGRAM, tmp_path / "a")
    shutil.copy(PROGRAM, tmp_path / "c")
    chunk = os.urandom(1 << 16) + b"\0" * (4 << 20)
    info = tarfile.TarInfo("x")
    info.size = 500 * len(chunk)
    (tmp_path / "b").write_bytes(gzip.compress(info.tobuf(), 1) + gzip.compress(chunk, 1) * 500)
    return tmp_path


def until(condition: Callable[[], object], seconds: float = 100) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert condition()


def busy(pid: int) -> list[int]:
    """The processes below *pid* that have used a tenth of a second."""
    result = []
    for child in below(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            if int(fields[11]) + int(fields[12]) > os.sysconf("SC_CLK_TCK") // 10:
                result.append(child)
    return result


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_interrupted(slow: Path, jobs: str) -> None:
    """Ctrl-C: status 130, no word, no process left."""
    words = [str(HUGEALIGN), "verify", "-j", jobs, *(str(slow / name) for name in "abc")]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), start_new_session=True
    )
    until(lambda: busy(os.getpid()))
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (130, b"")
    until(lambda: not session(process.pid))


def session(number: int) -> list[str]:
    result = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == number and fields[0] != "Z":
                result.append(directory.name)
    return result


def test_parent_that_is_killed(slow: Path) -> None:
    """Workers end by themselves when their parent is gone."""
    words = [str(HUGEALIGN), "verify", "-j", "3", *(str(slow / name) for name in "abc")]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=environment(), start_new_session=True)
    until(lambda: busy(process.pid))
    process.kill()
    process.wait()
    until(lambda: not session(process.pid))
