"""The trace: a fixed script in PostgreSQL's single-user mode, so that the same code runs, in the same order, each time.

What could differ from run to run is kept from it: addresses (no randomisation), the environment, the data, of which
each run gets a copy, and by ``still.c`` the time, after which statistics are reported, and the process's number.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steps import Steps

CPUS = ("skylake", "sapphirerapids", "zen3", "neoverse-n1")
WINDOWS = range(4)
_SETTINGS = ("track_counts=off", "track_activities=off", "fsync=off", "autovacuum=off", "max_wal_size=2GB", "jit=off")


# As in pgbench, whose first two scripts these are; a line is a command.
_TPCB = """\
BEGIN
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid
SELECT abalance FROM pgbench_accounts WHERE aid = :aid
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, '2026-11-21')
END
"""
_SELECT = "SELECT abalance FROM pgbench_accounts WHERE aid = :aid\n"
_REPORT = (
    "SELECT b.bid, count(*), sum(a.abalance), max(t.tbalance) FROM pgbench_accounts a "
    "JOIN pgbench_tellers t USING (bid) JOIN pgbench_branches b USING (bid) "
    "WHERE a.aid BETWEEN :aid - 500 AND :aid GROUP BY b.bid ORDER BY 3 DESC LIMIT 5\n"
)


def script(rounds: int, scale: int) -> Iterator[str]:
    """Yield the job: in each round one transaction and three selects, now and then a report; rows are drawn by us."""
    seed = 12345

    def draw(count: int) -> int:
        nonlocal seed
        seed = (seed * 1103515245 + 12345) % (1 << 31)
        return (seed >> 8) % count + 1

    for number in range(rounds):
        for text in (_TPCB, _SELECT, _SELECT, _SELECT, *([_REPORT] if number % 100 == 0 else [])):
            rows = {"aid": draw(100_000 * scale), "tid": draw(10 * scale), "bid": draw(scale), "delta": draw(5000)}
            for name, value in rows.items():
                text = text.replace(f":{name}", str(value))  # noqa: PLW2901
            yield text


@dataclass(frozen=True, slots=True)
class Tracer:
    """Traces of servers at work on copies of the cluster *data*, under *work*."""

    steps: Steps
    data: Path
    work: Path
    lines: Path
    still: Path  # still.c, compiled

    def trace(self, server: Path, output: Path) -> None:
        """Record *server* doing the script into *output*."""
        self.steps.output(["rm", "-rf", self.work])
        self.steps.output(["cp", "-a", self.data, self.work])
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        home = f"HOME={self.steps.build / 'home'}"
        tracer = shutil.which("hugealign") or "hugealign"
        # For the program that QEMU runs, not for QEMU.
        still = f"QEMU_SET_ENV=LD_PRELOAD={self.still}"
        bare = ["env", "-i", home, "PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", still, "setarch", "-R", tracer]
        single = [server, "--single", "-D", self.work, *settings, "postgres"]
        self.steps.run(
            [*bare, "trace", "-v", "-o", output, "--", *single], log=f"{output.stem}-trace", stdin=self.lines
        )

    def simulate(self, trace: Path, layouts: Sequence[str]) -> dict[str, Any]:
        """Return what the replay of *trace* under *layouts* says, as ``hugealign simulate --format json``."""
        words = [word for layout in layouts for word in ("--layout", layout)]
        words += [word for cpu in CPUS for word in ("--cpu", cpu)]
        windows = f"{WINDOWS[0]}-{WINDOWS[-1]}"
        said = self.steps.output(["hugealign", "simulate", trace, *words, "--windows", windows, "--format", "json"])
        found: dict[str, Any] = json.loads(said)
        return found


def misses(simulated: dict[str, Any], layout: str, cpu: str, windows: int) -> int:
    """Return the first-level misses of one layout on one processor with so many huge windows."""
    return next(
        int(row["misses"])
        for row in simulated["rows"]
        if (row["layout"], row["cpu"], row["windows"]) == (layout, cpu, windows)
    )
