"""A command on hostile input, within bounds: what it said and what it cost."""

import os
import resource
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support import HUGEALIGN, environment

MEMORY = 256 << 20  # bytes above what the command takes for nothing


@dataclass(frozen=True)
class Ended:
    """How a command ended: *seconds* of processor time with its children's, *peak* resident bytes of the largest."""

    status: int
    stdout: str
    stderr: str
    seconds: float
    peak: int


def run(*words: object, cwd: Path | None = None, seconds: int = 40) -> Ended:
    """Run ``hugealign`` with *words*; the kernel ends it after *seconds* of processor time, or with 1 GiB of memory."""

    def limits() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [str(HUGEALIGN), *map(os.fspath, words)],  # type: ignore[call-overload]
            stdout=out,
            stderr=err,
            cwd=cwd,
            env=environment(),
            preexec_fn=limits,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        texts = [stream.read(1 << 20).decode("utf-8", "replace") for stream in (out, err)]
    return Ended(process.returncode, *texts, used.ru_utime + used.ru_stime, used.ru_maxrss << 10)


def refused(ended: Ended, size: int, rate: float, reason: str) -> None:
    """Assert that a report says *reason*, with status 3, and that the cost was 5 s and *rate* s per MiB of *size*."""
    assert ended.status == 3, ended
    assert ended.stderr == ""
    assert reason in ended.stdout, ended.stdout[:500]
    assert len(ended.stdout) < 2000
    assert ended.peak < MEMORY, ended.peak >> 20
    assert ended.seconds < 5 + rate * size / (1 << 20), ended.seconds
