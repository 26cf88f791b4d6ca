"""The load of `hugealign top --watch` and `hugealign adapt` on a machine: ``python -m lab.bench.costs.live``, as root.

It takes three minutes.  Among 2,000 processes `top` samples at its default interval, and `adapt` at the interval of
examples/systemd; then `adapt` makes 16 hot windows huge while the program that runs in them measures its own gaps.
"""

import contextlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from hugealign.watch.adapt import AdaptOptions, adapt
from lab.bench.costs.top import crowd
from tests.support import HUGEALIGN, ROOT, environment

_TICKS = os.sysconf("SC_CLK_TCK")
_START = 4.0  # seconds for loading and the first look
WINDOWS = 16
ROUNDS = 5
_UNIT = ROOT / "examples" / "systemd" / "hugealign-adapt.service"


@contextlib.contextmanager
def arena(work: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run a program with `WINDOWS` hot windows of code without a file."""
    path = work / "arena"
    subprocess.run(["gcc", "-O2", "-o", path, ROOT / "tests" / "live" / "arena.c"], check=True)
    words = [str(path), str(WINDOWS), str(WINDOWS)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            if not child.stdout or child.stdout.readline() != "ready\n":
                raise RuntimeError("the arena did not start")
            yield child
        finally:
            child.kill()


def share(words: list[str], seconds: float) -> float:
    """Return the share of one processor that hugealign with *words* uses for *seconds*, once it has started."""
    command = [str(HUGEALIGN), *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment()) as child:
        try:
            time.sleep(_START)
            began, used = time.monotonic(), _used(child.pid)
            time.sleep(seconds)
            return (_used(child.pid) - used) / (time.monotonic() - began)
        finally:
            child.kill()


def _used(pid: int) -> float:
    """Return the seconds of processor time of *pid* and the children that it has waited for (proc(5))."""
    numbers = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, numbers[11:15])) / _TICKS


def gaps(child: "subprocess.Popen[str]", *, adapting: bool) -> tuple[int, int, float]:
    """Return the 99th percentile of the gaps in three seconds, the longest gap, and the time of the slowest window.

    Gaps are in microseconds, the window's time in seconds.
    """
    assert child.stdin
    assert child.stdout
    child.stdin.write("pause 3000\n")
    child.stdin.flush()
    slowest = 0.0
    if adapting:
        (done,) = adapt([str(child.pid)], AdaptOptions(windows=WINDOWS, seconds=0.5))
        slowest = max(change.seconds for change in done.changes)
    most, longest = map(int, child.stdout.readline().split())
    return most, longest, slowest


def main() -> None:
    """Measure, and print."""
    with tempfile.TemporaryDirectory(prefix="hugealign-bench-") as name:
        work = Path(name)
        with crowd(work):
            used = share(["top", "--watch", "5"], 60)
            print(f"top --watch 5 beside 2,000 processes: {100 * used:.2f} % of one processor")
        match = re.search(r"adapt --watch (\d+)", _UNIT.read_text(encoding="utf-8"))
        assert match
        with arena(work) as child:
            used = share(["adapt", "--watch", match[1], "--windows", str(WINDOWS), str(child.pid)], 2 * int(match[1]))
        print(f"adapt --watch {match[1]}: {100 * used:.2f} % of one processor")
        for _ in range(ROUNDS):
            with arena(work) as child:
                without, during = gaps(child, adapting=False), gaps(child, adapting=True)
            print(
                f"{WINDOWS} windows: 99 % of the gaps below {without[0]} us, with adapt {during[0]}; the longest "
                f"{without[1]} us, with adapt {during[1]}; the slowest window {1000 * during[2]:.0f} ms"
            )


if __name__ == "__main__":
    main()
