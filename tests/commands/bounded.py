"""A command on hostile input, within bounds: what it said and what it cost."""

import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support import HUGEALIGN, environment

MEMORY = 256 << 20  # bytes above what the command takes for nothing
_SECONDS = 60  # of processor time: not a measure, but what work without a bound never ends in
_STOP = 3 << 30  # bytes of addresses: so that a broken bound does not stop the machine


@dataclass(frozen=True)
class Ended:
    """How a command ended; *peak* resident bytes of it or of its largest child."""

    status: int
    stdout: str
    stderr: str
    peak: int

    @property
    def line(self) -> str:
        """What it said on stderr: one printable line."""
        assert self.stderr.endswith("\n")
        assert self.stderr[:-1].isprintable(), self.stderr[-2000:]
        return self.stderr[:-1]


#: Starts the command from a small process: the peak of a child begins with that of the process that it was forked from.
_HELPER = """
import os, resource, sys
child = os.fork()
if not child:
    for limit, value in zip((resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_FSIZE), map(int, sys.argv[2:5])):
        resource.setrlimit(limit, (value, value))
    os.execv(sys.argv[5], sys.argv[5:])
_, status, used = os.wait4(child, 0)
with open(sys.argv[1], "w") as out:
    print(os.waitstatus_to_exitcode(status), used.ru_maxrss << 10, file=out)
"""


def run(*words: object, cwd: Path | None = None, file_size: int = resource.RLIM_INFINITY) -> Ended:
    """Run ``hugealign WORDS`` in *cwd*, which is for temporary files too, none of them of more than *file_size* bytes.

    The kernel ends what does not end: after a minute of processor time.
    """
    return started(
        HUGEALIGN, *words, cwd=cwd, file_size=file_size, env=environment(**{"TMPDIR": str(cwd)} if cwd else {})
    )


def started(*argv: object, cwd: Path | None, env: dict[str, str], file_size: int = resource.RLIM_INFINITY) -> Ended:
    """Run the command *argv* within the same bounds."""
    with tempfile.TemporaryDirectory() as work:
        out, err, cost = (Path(work) / name for name in ("out", "err", "cost"))
        with out.open("wb") as stdout, err.open("wb") as stderr:
            limits = [str(_SECONDS), str(_STOP), str(file_size)]
            subprocess.run(
                [sys.executable, "-ISc", _HELPER, cost, *limits, *map(str, argv)],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=cwd,
                env=env,
                check=True,
            )
        status, peak = cost.read_text().split()
        with out.open("rb") as stdout, err.open("rb") as stderr:
            output, complained = (stream.read(1 << 20).decode("utf-8", "replace") for stream in (stdout, stderr))
    return Ended(int(status), output, complained, int(peak))


def refused(ended: Ended, reason: str) -> None:
    """Assert that a report says *reason*, with status 3, and that it took no more memory than is documented."""
    assert ended.status == 3, ended
    assert ended.stderr == ""
    assert reason in ended.stdout, ended.stdout[:500]
    assert len(ended.stdout) < 2000
    assert ended.peak < MEMORY, ended.peak >> 20
