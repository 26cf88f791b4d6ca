"""Running one of our commands with limits, and what it cost."""

import os
import resource
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tests.support import HUGEALIGN, environment

SECONDS, MEMORY = 120, 3 << 30  # where a run is stopped, so that a broken bound does not stop the machine


@dataclass(frozen=True, slots=True)
class Cost:
    """How a command ended: *peak* is bytes of memory, *seconds* processor time, both with its children's."""

    status: int
    stdout: str
    stderr: str
    peak: int
    seconds: float

    @property
    def line(self) -> str:
        """What it said on stderr: one printable line."""
        assert self.stderr.endswith("\n")
        assert self.stderr[:-1].isprintable(), self.stderr[-2000:]
        return self.stderr[:-1]


def hugealign(*words: object, directory: Path, temporary: int = 1 << 40) -> Cost:
    """Run ``hugealign WORDS`` in *directory*; no file that it writes may have more than *temporary* bytes."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (temporary, temporary))

    with (directory / "out").open("w+b") as out, (directory / "err").open("w+b") as err:
        process = subprocess.Popen(
            [HUGEALIGN, *map(str, words)],
            cwd=directory, env=environment(TMPDIR=str(directory)), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            preexec_fn=limit,  # noqa: PLW1509  # it only makes system calls
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        stdout, stderr = _said(out), _said(err)
    return Cost(process.returncode, stdout, stderr, used.ru_maxrss << 10, used.ru_utime + used.ru_stime)


def _said(stream: BinaryIO) -> str:
    stream.seek(0)
    return stream.read(1 << 20).decode("utf-8", "replace")
