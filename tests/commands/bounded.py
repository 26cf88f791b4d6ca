"""A command on hostile input, within bounds: what it said and what it cost."""

import subprocess
import sys
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


#: Starts the command from a small process: the peak of a child begins with that of the process that it was forked from.
_HELPER = """
import os, resource, sys
limits = {resource.RLIMIT_CPU: int(sys.argv[2]), resource.RLIMIT_AS: 1 << 30}
child = os.fork()
if not child:
    for limit, value in limits.items():
        resource.setrlimit(limit, (value, value))
    os.execv(sys.argv[3], sys.argv[3:])
_, status, used = os.wait4(child, 0)
with open(sys.argv[1], "w") as out:
    print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss << 10, file=out)
"""


def run(*words: object, cwd: Path | None = None, seconds: int = 40) -> Ended:
    """Run ``hugealign`` with *words*; the kernel ends it after *seconds* of processor time, or with 1 GiB of memory."""
    with tempfile.TemporaryDirectory() as work:
        out, err, cost = (Path(work) / name for name in ("out", "err", "cost"))
        with out.open("wb") as stdout, err.open("wb") as stderr:
            subprocess.run(
                [sys.executable, "-ISc", _HELPER, cost, str(seconds), HUGEALIGN, *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=cwd,
                env=environment(),
                check=True,
            )
        status, used, peak = cost.read_text().split()
        with out.open("rb") as stdout, err.open("rb") as stderr:
            said, complained = (stream.read(1 << 20).decode("utf-8", "replace") for stream in (stdout, stderr))
    return Ended(int(status), said, complained, float(used), int(peak))


def refused(ended: Ended, size: int, rate: float, reason: str) -> None:
    """Assert that a report says *reason*, with status 3, and that the cost was 5 s and *rate* s per MiB of *size*."""
    assert ended.status == 3, ended
    assert ended.stderr == ""
    assert reason in ended.stdout, ended.stdout[:500]
    assert len(ended.stdout) < 2000
    assert ended.peak < MEMORY, ended.peak >> 20
    assert ended.seconds < 5 + rate * size / (1 << 20), ended.seconds
