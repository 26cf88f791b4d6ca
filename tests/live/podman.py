"""Podman with crun and images of its own, for tests that run containers."""

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support import MissingError

#: crun wants control groups of version 2 alone, where this machine may have both.
_UNIFIED = 'umount --recursive --lazy /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec "$@"'


#: What podman is not to do where it may not.
_LIMITS = ("--cgroups=disabled", "--network=none", "--ulimit=nofile=1000:1000", "--ulimit=nproc=1000:1000")


class Podman:
    """Podman by its own *options*: where its images are, and of which kind."""

    def __init__(self, *options: object) -> None:
        self._options = options

    def run(self, *words: object) -> str:
        """Return what podman says to *words*.  Raises MissingError."""
        podman: Sequence[object] = ("podman", *self._options, "--runtime", "crun", *words)
        command = ["unshare", "--mount", "sh", "-c", _UNIFIED, "sh", *map(str, podman)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=1800)
        if done.returncode:
            raise MissingError(f"podman {words[0]}: {done.stderr.strip()[-300:]}")
        return (done.stdout + (done.stderr if words[0] == "logs" else "")).strip()

    def finish(self, *words: object) -> str:
        """Run a container until it ends by itself; return what it said.  Raises MissingError if it fails."""
        return self.run("run", "--rm", *_LIMITS, *words)

    def start(self, *words: object) -> tuple[str, int, str]:
        """Start a container that says ``ready``; return its name, the PID of its first process, and what it said."""
        name = self.run("run", "--detach", *_LIMITS, *words)
        message = until_ready(self.run, name)
        return name, int(self.run("inspect", "--format", "{{.State.Pid}}", name)), message


def until_ready(engine: Callable[..., str], name: str) -> str:
    """Return what the container *name* of an *engine*, called with its words, said until it said ``ready``, or 10 s."""
    message = ""
    for _ in range(100):
        message = engine("logs", name)
        if "ready" in message:
            break
        time.sleep(0.1)
    return message


def huge_kib(pid: int) -> int:
    """Return the KiB of copies on tmpfs that the process maps with huge pages."""
    lines = Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("ShmemPmdMapped:"))
