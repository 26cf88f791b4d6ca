"""The trace: a fixed script in PostgreSQL's single-user mode, so that the same code runs, in the same order, each time.

What could differ from run to run, and from machine to machine, is kept from it:

- the data are made by a script in single-user mode, too, where nothing works beside it, and ANALYZE, which draws rows
  at random, is made to take all of them;
- addresses (no randomisation), the environment, what initdb would choose by the machine, and by ``still.c`` the time,
  after which statistics are reported, and the process's number;
- the length of paths, which decides where strings lie: everything is in a directory whose name is as long each time.

Only the script's part counts, not the start, where the number of a piece of shared memory is printed, for example.
"""

# ruff: noqa: S608 - no value in these statements comes from anywhere else

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tracing
from steps import Steps

CPUS = ("skylake", "sapphirerapids", "zen3", "neoverse-n1")
WINDOWS = range(4)
#: The part that counts: from the first statement to the end of the server.
PART = ("--from", "pg_parse_query", "--until", "proc_exit")
_SETTINGS = (
    *("track_counts=off", "track_activities=off", "fsync=off", "autovacuum=off", "max_wal_size=2GB", "jit=off"),
    *("shared_buffers=128MB", "max_connections=20", "huge_pages=off", "dynamic_shared_memory_type=mmap"),
)
_ACCOUNTS, _TELLERS = 100_000, 10  # for each branch
# As `pgbench -i` has them, and their keys.
_TABLES = {
    "branches": ("bid int NOT NULL, bbalance int, filler char(88)", "bid"),
    "tellers": ("tid int NOT NULL, bid int, tbalance int, filler char(84)", "tid"),
    "accounts": ("aid int NOT NULL, bid int, abalance int, filler char(84)", "aid"),
    "history": ("tid int, bid int, aid int, delta int, mtime timestamp, filler char(22)", ""),
}

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


def tables(scale: int) -> Iterator[str]:
    """Yield what makes the data, a command on each line."""
    rows = {
        "branches": f"SELECT n, 0 FROM generate_series(1, {scale}) n",
        "tellers": f"SELECT n, (n - 1) / {_TELLERS} + 1, 0 FROM generate_series(1, {_TELLERS * scale}) n",
        "accounts": f"SELECT n, (n - 1) / {_ACCOUNTS} + 1, 0, '' FROM generate_series(1, {_ACCOUNTS * scale}) n",
    }
    for name, (columns, key) in _TABLES.items():
        yield f"CREATE TABLE pgbench_{name} ({columns})\n"
        if name in rows:
            yield f"INSERT INTO pgbench_{name} {rows[name]}\n"
        if key:
            yield f"ALTER TABLE pgbench_{name} ADD PRIMARY KEY ({key})\n"
    # Of 300 rows for each unit of the target (analyze.c, std_typanalyze) it draws; of fewer it takes all.
    yield f"SET default_statistics_target = {_ACCOUNTS * scale // 300 + 1}\n"
    yield "VACUUM ANALYZE\n"


def script(rounds: int, scale: int) -> Iterator[str]:
    """Yield the job: in each round one transaction and three selects, now and then a report; rows are drawn by us."""
    seed = 12345

    def draw(count: int) -> int:
        nonlocal seed
        seed = (seed * 1103515245 + 12345) % (1 << 31)
        return (seed >> 8) % count + 1

    for number in range(rounds):
        for text in (_TPCB, _SELECT, _SELECT, _SELECT, *([_REPORT] if number % 100 == 0 else [])):
            rows = {"aid": draw(_ACCOUNTS * scale), "tid": draw(_TELLERS * scale), "bid": draw(scale)}
            rows["delta"] = draw(5000)
            for name, value in rows.items():
                text = text.replace(f":{name}", str(value))  # noqa: PLW2901
            yield text


@dataclass(frozen=True, slots=True)
class Tracer:
    """Traces of servers at work in *home*: a directory whose path is as long each time."""

    steps: Steps
    home: Path

    def prepare(self, rounds: int, scale: int) -> None:
        """Write the scripts, and compile still.c."""
        for name, lines in (("tables", tables(scale)), ("job", script(rounds, scale))):
            (self.home / f"{name}.sql").write_text("".join(lines), encoding="ascii")
        words = ["gcc", "-O1", "-shared", "-fPIC", "-x", "c", "-", "-o", self._still]
        self.steps.run(words, log="still", stdin=Path(__file__).parent / "still.c")

    def fill(self, prefix: Path) -> None:
        """Make the data anew, by the server installed in *prefix*."""
        data = self.home / "filled"
        self._bring(prefix)
        self.steps.output(["rm", "-rf", data, self.home / "data"])
        bare = [*tracing.bare(self.home), f"LD_PRELOAD={self._still}"]
        who = ["-A", "trust", "-U", "postgres", "--locale=C", "-E", "UTF8", "--no-sync"]
        self.steps.run([*bare, self.home / "postgres" / "bin" / "initdb", "-D", data, *who], log="tables")
        lines = self.home / "tables.sql"
        self.steps.run([*bare, *self._single(data)], log="tables", append=True, stdin=lines)

    def trace(self, prefix: Path, output: Path, processor: int | None = None) -> None:
        """Record the server installed in *prefix* doing the job on a copy of the data into *output*.

        It runs on one *processor* if that is given.
        """
        data = self.home / "data"
        self._bring(prefix)
        self.steps.output(["rm", "-rf", data])
        self.steps.output(["cp", "-a", self.home / "filled", data])
        words = tracing.traced(self.home, self._still, output, processor)
        lines = self.home / "job.sql"
        self.steps.run([*words, *self._single(data)], log=f"{output.stem}-trace", stdin=lines)

    @property
    def _still(self) -> Path:
        return self.home / "still.so"

    def _bring(self, prefix: Path) -> None:
        server = self.home / "postgres"
        self.steps.output(["rm", "-rf", server])
        self.steps.output(["cp", "-a", prefix, server])

    def _single(self, data: Path) -> list[object]:
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        return [self.home / "postgres" / "bin" / "postgres", "--single", "-D", data, *settings, "postgres"]

    def simulate(self, program: Path, trace: Path, layouts: Sequence[str]) -> dict[str, Any]:
        """Return the replay of the script's part of *trace*, of *program*, as ``hugealign simulate --format json``."""
        windows = f"{WINDOWS[0]}-{WINDOWS[-1]}"
        return tracing.replayed(self.steps, trace, program, layouts, CPUS, [*PART, "--windows", windows])


def misses(simulated: dict[str, Any], layout: str, cpu: str, windows: int) -> int:
    """Return the first-level misses of one layout on one processor with so many huge windows."""
    return next(
        int(row["misses"])
        for row in simulated["rows"]
        if (row["layout"], row["cpu"], row["windows"]) == (layout, cpu, windows)
    )
