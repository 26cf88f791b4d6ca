"""The text of a running program: what the kernel maps it with, and where perf's samples fall in it."""

import bisect
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from examples.servers.steps import Failed, Steps

WINDOW = 2 << 20


@dataclass(frozen=True, slots=True)
class Text:
    """Where a process has its text, and how many bytes of it the kernel maps with PMDs."""

    start: int
    end: int
    huge: int

    def __str__(self) -> str:
        return f"{self.huge >> 10} of {(self.end - self.start) >> 10} KiB"


def mapped(pid: int, program: Path) -> Text:
    """Return how the kernel maps the text of *program* in the process *pid*; raises Failed."""
    start = end = huge = 0
    inside = False
    for line in Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            inside = words[1] == "r-xp" and words[-1] == str(program)
            if inside:
                low, high = (int(word, 16) for word in words[0].split("-"))
                start, end = start or low, high
        elif inside and words[0] in {"FilePmdMapped:", "ShmemPmdMapped:"}:
            huge += int(words[1]) << 10
    if not start:
        raise Failed(f"the process {pid} maps no text of {program}")
    return Text(start, end, huge)


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples by their distance from the start of the text, sorted, in bytes."""

    offsets: list[int]

    def share(self, end: int) -> float:
        """Return the per cent of samples before *end*, in bytes from the start of the text."""
        return 100 * bisect.bisect_left(self.offsets, end) / max(1, len(self.offsets))

    def pages(self) -> int:
        """Return how many pages of 4 KiB have samples."""
        return len({offset >> 12 for offset in self.offsets})


def samples(steps: Steps, profile: Path, text: Text) -> list[int]:
    """Return where the samples of *profile* fall in the text that lay at *text*, as it does in forks of the process."""
    output = steps.output(["perf", "script", "-i", profile, "-G", "-F", "ip"])
    addresses = (int(word, 16) for word in output.split())
    return [address - text.start for address in addresses if text.start <= address < text.end]


def perf_rights() -> list[str]:
    """Return the rights, in setpriv's words, that a user needs for ``perf``; raises Failed if we cannot give them.

    Debian's kernels allow no user (kernel.perf_event_paranoid 3, Debian's own; 2 allows one's own processes) but those
    with CAP_PERFMON, which root can hand on without the rest of its rights.
    """
    path = Path("/proc/sys/kernel/perf_event_paranoid")
    level = int(path.read_text(encoding="ascii")) if path.exists() else 99
    if level <= 2:
        return []
    if os.geteuid() == 0:
        return ["--inh-caps", "+perfmon", "--ambient-caps", "+perfmon"]
    missing = "this kernel has no perf events" if level == 99 else f"kernel.perf_event_paranoid is {level}"
    raise Failed(
        f"{missing}, so that perf records nothing; run this as root, or: sysctl kernel.perf_event_paranoid=2", 3
    )


def counts(text: str) -> Mapping[str, int] | None:
    """Return the counters that ``perf stat -x,`` printed, by event, or None if the machine lacks one of them."""
    result: dict[str, int] = {}
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) > 3:
            if not fields[0].isdigit():
                return None
            result[fields[2].partition(":")[0]] = int(fields[0])
    return result or None
