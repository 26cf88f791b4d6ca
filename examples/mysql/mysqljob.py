"""The trace: fixed SQL in ``mariadbd --bootstrap``, which runs it in one thread without clients, and ends.

The statements are those of sysbench's oltp_read_write, with values from a generator of our own.  What could differ
from run to run is kept away: addresses, environment, time zone, the data.  InnoDB's own threads go by the clock all the
same.
"""

# ruff: noqa: S608 - no value in these statements comes from anywhere else

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mysqlserver import ROWS, TABLES, Place
from steps import Steps

CPUS = ("ivybridge", "skylake", "sapphirerapids", "zen4")
TRANSACTIONS = 100
# Without a largest size InnoDB reserves 8 TiB of addresses, which user-mode emulation cannot.
_SETTINGS = """
--bootstrap --innodb-buffer-pool-size=64M --innodb-buffer-pool-size-max=64M --innodb-log-file-size=256M
--innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --innodb-stats-auto-recalc=0 --innodb-use-native-aio=0
--skip-log-bin --skip-networking --innodb-read-io-threads=1 --innodb-write-io-threads=1 --innodb-purge-threads=1
--innodb-buffer-pool-load-at-startup=0 --innodb-buffer-pool-dump-at-shutdown=0
""".split()


def script(transactions: int) -> Iterator[str]:
    """Yield the statements, one a line."""
    seed = 12345

    def number(count: int) -> int:
        nonlocal seed
        seed = (seed * 1103515245 + 12345) % (1 << 31)
        return (seed >> 8) % count + 1

    def digits(groups: int) -> str:
        return "-".join(f"{number(10**8) * 1000 + number(999):011}" for _ in range(groups))

    yield "USE sbtest;"
    for _ in range(transactions):
        yield "BEGIN;"
        for _ in range(10):
            yield f"SELECT c FROM sbtest{number(TABLES)} WHERE id={number(ROWS)};"
        for what, after in (
            ("c", ""),
            ("SUM(k)", ""),
            ("c", " ORDER BY c"),
            ("DISTINCT c", " ORDER BY c"),
        ):
            low = number(ROWS - 100)
            yield f"SELECT {what} FROM sbtest{number(TABLES)} WHERE id BETWEEN {low} AND {low + 99}{after};"
        yield f"UPDATE sbtest{number(TABLES)} SET k=k+1 WHERE id={number(ROWS)};"
        yield f"UPDATE sbtest{number(TABLES)} SET c='{digits(10)}' WHERE id={number(ROWS)};"
        table, row = number(TABLES), number(ROWS)
        yield f"DELETE FROM sbtest{table} WHERE id={row};"
        values = f"{row}, {number(ROWS)}, '{digits(10)}', '{digits(5)}'"
        yield f"INSERT INTO sbtest{table} (id, k, c, pad) VALUES ({values});"
        yield "COMMIT;"


@dataclass(frozen=True, slots=True)
class Tracer:
    """Traces of servers at work on copies of *data*, in *work*."""

    steps: Steps
    place: Place
    data: Path
    work: Path
    lines: Path

    def trace(self, program: Path, output: Path) -> None:
        """Record *program* doing the script into *output*."""
        self.steps.output(["rm", "-rf", self.work])
        self.steps.output(["cp", "-a", self.data, self.work])
        home = f"HOME={self.steps.build / 'home'}"
        tracer = shutil.which("hugealign") or "hugealign"
        bare = ["env", "-i", home, "PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "setarch", "-R", tracer]
        server = [program, *self.place.words(self.work), *_SETTINGS]
        self.steps.run(
            [*bare, "trace", "-v", "-o", output, "--", *server], log=f"{output.stem}-trace", stdin=self.lines
        )

    def simulate(self, trace: Path, layouts: Sequence[str], windows: int) -> dict[str, Any]:
        """Return the replay of *trace* under *layouts* with up to *windows* huge ones, as `simulate --format json`."""
        words = [word for layout in layouts for word in ("--layout", layout)]
        words += [word for cpu in CPUS for word in ("--cpu", cpu)]
        said = self.steps.output(
            ["hugealign", "simulate", trace, *words, "--windows", f"0-{windows}", "--format", "json"]
        )
        found: dict[str, Any] = json.loads(said)
        return found
