"""What the examples that build a server share: steps that run once, as an ordinary user; the machine; paired runs."""

import dataclasses
import hashlib
import math
import os
import platform
import pwd
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ANY = range(-64, 256)  # every status that a command can end with
_ROOT = Path(__file__).resolve().parents[1]
_OURS = ("bin", "hugealign", "ld-scripts", "cmake", "examples")  # what a run's results come from
_TEXTS = {"", ".c", ".cmake", ".ld", ".o", ".py", ".sh"}


class Failed(Exception):  # noqa: N818 - it ends the run, with *status*
    """A step failed: what, and where the rest of it stands."""

    def __init__(self, words: str, status: int = 1) -> None:
        super().__init__(words)
        self.status = status


@dataclasses.dataclass(slots=True)
class Steps:
    """A resumable run in *build*: stamps of finished steps with their seconds, a log for each, promises broken."""

    build: Path
    user: str  # who runs what root is not needed for
    began: float  # seconds since the epoch
    broken: list[str] = dataclasses.field(default_factory=list)

    def say(self, words: str) -> None:
        """Print a line of progress, with the time since the start."""
        seconds = int(time.time() - self.began)
        print(f"[{seconds // 60:02}:{seconds % 60:02}] {words}", flush=True)

    def promise(self, kept: bool, words: str) -> None:
        """Note *words* as broken unless *kept*."""
        if not kept:
            print(f"BROKEN: {words}", file=sys.stderr, flush=True)
            self.broken.append(words)

    def directory(self, *names: str) -> Path:
        """Return a directory below the build directory, made for the user if it is not there."""
        path = self.build
        for name in names:
            path /= name
            if not path.is_dir():
                path.mkdir()
                if os.geteuid() == 0:
                    found = pwd.getpwnam(self.user)
                    os.chown(path, found.pw_uid, found.pw_gid)
        return path

    def done(self, name: str) -> int | None:
        """Return the seconds that the step *name* took, or None if it was not done."""
        stamp = self.build / "stamps" / name
        return int(stamp.read_text()) if stamp.exists() else None

    def resume(self) -> None:
        """Note which hugealign this run is of; raises Failed if steps were done with another.

        What those made and measured would be told as this one's.  Debian's source is the same for all.
        """
        stamps = self.build / "stamps"
        note = stamps / ".version"
        before, now = note.read_text() if note.exists() else "", version()
        if before != now and any(stamp.name != "source" for stamp in stamps.glob("[!.]*")):
            raise Failed(f"{self.build} is of another version of hugealign: begin anew with --clean", 2)
        note.write_text(now)

    def once(self, name: str, words: str, *commands: Sequence[object], cwd: Path | None = None) -> None:
        """Run *commands*, the output to a log, unless that was done; raises Failed."""
        if (seconds := self.done(name)) is not None:
            self.say(f"{words}: done before ({seconds} s)")
            return
        self.say(f"{words} …")
        start = time.monotonic()
        for number, command in enumerate(commands):
            self.run(command, log=name, append=number > 0, cwd=cwd)
        self.stamp(name, start)
        self.say(f"{words}: {self.done(name)} s")

    def stamp(self, name: str, start: float) -> None:
        """Note that the step *name* is done, begun at *start* of the monotonic clock."""
        beside = self.build / "stamps" / f".{name}"
        beside.write_text(f"{time.monotonic() - start:.0f}\n")
        beside.replace(self.build / "stamps" / name)

    def log(self, name: str) -> Path:
        """Return where the log of the step *name* is."""
        return self.build / "logs" / f"{name}.log"

    def run(
        self,
        command: Sequence[object],
        *,
        log: str,
        append: bool = False,
        cwd: Path | None = None,
        stdin: Path | None = None,
        accept: Sequence[int] = (0,),
        own_user: bool = False,
    ) -> int:
        """Run *command*, its output to a log; return the status; raise Failed if that is not one of *accept*.

        It runs as the user, or, with *own_user*, as whoever runs this.
        """
        words = [str(word) for word in command]
        with self.log(log).open("a" if append else "w") as out, (stdin or Path(os.devnull)).open("rb") as source:
            status = subprocess.run(
                words,
                stdin=source,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=cwd or self.build,
                check=False,
                **({} if own_user else self._who()),
            ).returncode
        if status not in accept:
            tail = self.log(log).read_text(errors="replace").splitlines()[-25:]
            raise Failed("\n".join([*tail, f"{words[0]}: status {status}; the whole log: {self.log(log)}"]))
        return int(status)

    def output(self, command: Sequence[object], accept: Sequence[int] = (0,)) -> str:
        """Return what *command*, run as the user, prints; raises Failed if its status is not one of *accept*."""
        words = [str(word) for word in command]
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, cwd=self.build, check=False, **self._who()
        )
        if done.returncode not in accept:
            said = (done.stderr or done.stdout).decode(errors="replace").strip()
            raise Failed(f"{said}\n{' '.join(words)}: status {done.returncode}")
        return str(done.stdout.decode(errors="replace"))

    def _who(self) -> dict[str, Any]:
        """Return the arguments that make subprocess run something as the user."""
        if os.geteuid() != 0:
            return {}
        found = pwd.getpwnam(self.user)
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


def version() -> str:
    """Return what tells this hugealign, with its examples, from others."""
    found = hashlib.sha256()
    for path in sorted(path for name in _OURS for path in (_ROOT / name).rglob("*")):
        if path.suffix in _TEXTS and path.is_file():
            found.update(b"%b\0%b\0" % (os.fsencode(path.relative_to(_ROOT)), path.read_bytes()))
    return found.hexdigest()


# ---- the machine -----------------------------------------------------------------------------------------------------


def machine(directory: Path) -> dict[str, str]:
    """Return this machine in words; *directory* is where the programs lie."""
    cpu = _first(r"model name\s*:\s*(.*)", "/proc/cpuinfo") or platform.machine()
    virtual = ", a virtual machine" if _first(r"flags\s*:.*\b(hypervisor)\b", "/proc/cpuinfo") else ""
    memory = int(_first(r"MemTotal:\s*(\d+)", "/proc/meminfo") or 0)
    return {
        "processor": f"{cpu}, {os.cpu_count()} CPUs{virtual}",
        "memory": f"{memory / (1 << 20):.0f} GiB",
        "kernel": f"Linux {platform.release().split('-')[0]}",
        "system": _first(r'PRETTY_NAME="?([^"\n]*)', "/etc/os-release") or "unknown",
        "file system": _file_system(directory),
        "THP": _first(r"\[(.*?)\]", "/sys/kernel/mm/transparent_hugepage/enabled") or "none",
    }


def _first(pattern: str, path: str) -> str | None:
    try:
        found = re.search(pattern, Path(path).read_text(encoding="utf-8"))
    except OSError:
        return None
    return found[1] if found else None


def _file_system(directory: Path) -> str:
    """Return the type of the file system that *directory* is on."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True, check=False).stdout
    kinds = {
        words[1]: words[2]
        for words in (line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines())
    }
    place = next((str(p) for p in (directory, *directory.parents) if str(p) in kinds), None)
    return kinds[place] if place else kind.strip()


# ---- paired runs -----------------------------------------------------------------------------------------------------

# Student's t, 97.5 %, by degrees of freedom; beyond the last, the last (which is a little too wide).
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A change in per cent, and the interval that holds it with 95 % confidence."""

    percent: float
    low: float
    high: float

    @property
    def shown(self) -> bool:
        """Tell whether the runs show a change at all."""
        return not self.low <= 0 <= self.high

    def __str__(self) -> str:
        words = f"{self.percent:+.1f} % ({self.low:+.1f} to {self.high:+.1f})"
        return words if self.shown else f"{words}: none shown"


def paired(before: Sequence[float], after: Sequence[float]) -> Change:
    """Return the change from *before* to *after*, measured in turn, by the mean of the ratios' logarithms."""
    ratios = [math.log(new / old) for old, new in zip(before, after, strict=True)]
    if len(ratios) < 2:
        raise ValueError("an interval takes two pairs")
    mean = statistics.fmean(ratios)
    half = _T[min(len(ratios) - 1, len(_T)) - 1] * statistics.stdev(ratios) / math.sqrt(len(ratios))
    return Change(*(100 * (math.exp(value) - 1) for value in (mean, mean - half, mean + half)))


def interleaved(names: Sequence[str], rounds: int) -> list[list[str]]:
    """Return the order of each round: rotated and turned round, so that none is always first, or after the same."""
    return [
        [*names[at % len(names) :], *names[: at % len(names)]][:: 1 if at // len(names) % 2 == 0 else -1]
        for at in range(rounds)
    ]


# ---- perf ------------------------------------------------------------------------------------------------------------


def perf_words(user: str) -> list[str]:
    """Return what comes before ``perf`` so that *user* may use it; raises Failed with what is missing.

    Debian's kernels let nobody (kernel.perf_event_paranoid 3, Debian's own; 2 allows one's own processes) but those
    with CAP_PERFMON, which root can hand on without the rest of its rights.
    """
    path = Path("/proc/sys/kernel/perf_event_paranoid")
    level = int(path.read_text(encoding="ascii")) if path.exists() else 99
    if level <= 2:
        return []
    if os.geteuid() == 0:
        found = pwd.getpwnam(user)
        who = ["--reuid", str(found.pw_uid), "--regid", str(found.pw_gid), "--clear-groups"]
        return ["setpriv", *who, "--inh-caps", "+perfmon", "--ambient-caps", "+perfmon", "--"]
    missing = "this kernel has no perf events" if level == 99 else f"kernel.perf_event_paranoid is {level}"
    raise Failed(
        f"{missing}, so that perf records nothing; run this as root, or: sysctl kernel.perf_event_paranoid=2", 3
    )


def counts(text: str) -> Mapping[str, int] | None:
    """Return the counters that ``perf stat -x,`` printed, by event, or None if the machine lacks one of them."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) > 3:
            if not fields[0].isdigit():
                return None
            found[fields[2].partition(":")[0]] = int(fields[0])
    return found or None
