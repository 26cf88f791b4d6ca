"""The trace: fixed SQL in ``mariadbd --bootstrap``, which runs it in one thread without clients, and ends.

The statements are those of sysbench's oltp_read_write, with values from a generator of our own.  The thread that runs
them runs the same blocks each time, on any machine with the same packages, and only it counts, from the first BEGIN to
the server's end.  For that,

- no other thread works beside it: --innodb-force-recovery=2 leaves out purge and the master thread, nothing is dirty
  enough to be written, nothing is read ahead, and all of the tables is in the buffer pool before the first BEGIN;
- the data are made by a server under the same rule, not by clients of one whose threads go by the clock;
- the log's size is another when the data are made, so that InnoDB makes a new log, whose buffer begins at one place
  whatever the log held before;
- everything lies in a directory whose name is as long each time, what is sized by the machine is told, and ``alike.c``
  hides the rest of it: how long a string is decides where the next one lies, and that which way memcpy takes.

Start and end of the server do not count: they wait for clocks.
"""

# ruff: noqa: S608 - no value in these statements comes from anywhere else

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tracing
from mysqlserver import ROWS, TABLES, Place
from steps import Steps

CPUS = ("ivybridge", "skylake", "sapphirerapids", "zen4")
TRANSACTIONS = 100
#: The part that counts: BEGIN runs trans_begin(), and what ends the server is unireg_abort().
PART = ("--from", "_Z11trans_beginP3THDj", "--until", "unireg_abort")
# Without a largest size InnoDB reserves 8 TiB of addresses, which user-mode emulation cannot.
_SETTINGS = """
--bootstrap --innodb-buffer-pool-size=64M --innodb-buffer-pool-size-max=64M --innodb-log-buffer-size=16M
--innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --innodb-use-native-aio=0 --skip-log-bin --skip-networking
--innodb-read-io-threads=1 --innodb-write-io-threads=1 --innodb-purge-threads=1 --innodb-adaptive-hash-index=0
--innodb-buffer-pool-load-at-startup=0 --innodb-buffer-pool-dump-at-shutdown=0
--innodb-max-dirty-pages-pct=99.9 --innodb-max-dirty-pages-pct-lwm=0 --innodb-adaptive-flushing=0
--innodb-read-ahead-threshold=0 --innodb-random-read-ahead=0 --aria-checkpoint-interval=0
--innodb-flush-method=fsync --innodb-log-file-buffering=1 --innodb-log-file-mmap=0
--innodb-stats-auto-recalc=0 --innodb-stats-persistent-sample-pages=10000
--open-files-limit=1024 --max-connections=10 --table-open-cache=100 --table-open-cache-instances=1
--thread-pool-size=1 --log-basename=job
""".split()
_QUIET = "--innodb-force-recovery=2"
_FILL_LOG, _JOB_LOG = "--innodb-log-file-size=96M", "--innodb-log-file-size=64M"
_LIMITS = ("prlimit", "--nofile=1024:1024", "--stack=8388608:8388608")
# As in scripts/mysql_system_tables.sql: without them InnoDB estimates from pages that it chooses at random.
_STATISTICS = """
CREATE DATABASE mysql;
CREATE TABLE mysql.innodb_table_stats (database_name VARCHAR(64) NOT NULL, table_name VARCHAR(199) NOT NULL,
  last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, n_rows BIGINT UNSIGNED NOT NULL,
  clustered_index_size BIGINT UNSIGNED NOT NULL, sum_of_other_index_sizes BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (database_name, table_name)) ENGINE=INNODB CHARSET utf8 COLLATE utf8_bin STATS_PERSISTENT=0;
CREATE TABLE mysql.innodb_index_stats (database_name VARCHAR(64) NOT NULL, table_name VARCHAR(199) NOT NULL,
  index_name VARCHAR(64) NOT NULL,
  last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, stat_name VARCHAR(64) NOT NULL,
  stat_value BIGINT UNSIGNED NOT NULL, sample_size BIGINT UNSIGNED, stat_description VARCHAR(1024) NOT NULL,
  PRIMARY KEY (database_name, table_name, index_name, stat_name))
  ENGINE=INNODB CHARSET utf8 COLLATE utf8_bin STATS_PERSISTENT=0;
"""
_CLOCK = "SET TIMESTAMP=1000000000;"  # else each statement asks whether the clock has moved on since the last


def tables() -> Iterator[str]:
    """Yield the statements that make sysbench's tables, with values of our own."""
    yield from (_CLOCK, *_STATISTICS.strip().splitlines(), "CREATE DATABASE sbtest;", "USE sbtest;")
    for table in range(1, TABLES + 1):
        yield (
            f"CREATE TABLE sbtest{table} (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, "
            "c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, "
            f"PRIMARY KEY (id), KEY k_{table} (k)) ENGINE=InnoDB;"
        )
        c, pad = (", ".join(f"MD5(CONCAT('{what}{table}', seq))" for what in letters) for letters in ("abc", "de"))
        yield (
            f"INSERT INTO sbtest{table} (k, c, pad) SELECT 1 + CRC32(CONCAT('k{table}', seq)) % {ROWS}, "
            f"CONCAT_WS('-', {c}), LEFT(CONCAT_WS('-', {pad}), 59) FROM seq_1_to_{ROWS};"
        )
        yield f"ANALYZE TABLE sbtest{table};"


def warm_up() -> Iterator[str]:
    """Yield statements that read all of the tables, for what is read later is read by threads beside, and then wait.

    InnoDB's page cleaner looks once a second whether it is needed, until it has seen that it is not.
    """
    yield from (_CLOCK, "USE sbtest;")
    for table in range(1, TABLES + 1):
        yield f"SELECT COUNT(*) FROM sbtest{table} FORCE INDEX (PRIMARY) WHERE pad <> 'x';"
        yield f"SELECT COUNT(*) FROM sbtest{table} FORCE INDEX (k_{table}) WHERE k > 0;"
    yield "DO SLEEP(5);"


def script(transactions: int) -> Iterator[str]:
    """Yield the statements, one a line."""
    seed = 12345

    def number(count: int) -> int:
        nonlocal seed
        seed = (seed * 1103515245 + 12345) % (1 << 31)
        return (seed >> 8) % count + 1

    def digits(groups: int) -> str:
        return "-".join(f"{number(10**8) * 1000 + number(999):011}" for _ in range(groups))

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
    """Traces of servers at work, in *home*: a directory whose path is as long each time."""

    steps: Steps
    place: Place
    home: Path

    def prepare(self) -> None:
        """Bring what a server needs beside its data, and what it shall run."""
        server, share = self.place.tree / "sql" / "share" / "english", self.place.source / "sql" / "share" / "charsets"
        self.steps.output(["cp", "-rL", server, share, self.home])
        for name, statements in (("tables", tables()), ("job", (*warm_up(), *script(TRANSACTIONS)))):
            (self.home / f"{name}.sql").write_text("\n".join(statements) + "\n", encoding="ascii")
        words = ["gcc", "-O1", "-shared", "-fPIC", "-x", "c", "-", "-o", self.home / "alike.so"]
        self.steps.run(words, log="alike", stdin=Path(__file__).parent / "alike.c")

    def fill(self, program: Path) -> None:
        """Make the data, by *program*, anew."""
        self.steps.output(["rm", "-rf", self.home / "data", self.home / "filled"])
        self.steps.output(["mkdir", self.home / "data"])
        self._bring(program)
        self.steps.run([*self._server(), _FILL_LOG], log="tables", cwd=self.home)
        words = [*self._server(), _FILL_LOG, _QUIET]
        self.steps.run(words, log="tables", append=True, cwd=self.home, stdin=self.home / "tables.sql")
        self.steps.output(["mv", self.home / "data", self.home / "filled"])

    def trace(self, program: Path, output: Path, processor: int | None = None) -> None:
        """Record *program* doing the job on a copy of the data into *output*, on one *processor* if it is given."""
        self._bring(program)
        self.steps.output(["rm", "-rf", self.home / "data"])
        self.steps.output(["cp", "-a", self.home / "filled", self.home / "data"])
        words = tracing.traced(self.home, self.home / "alike.so", output, processor, _LIMITS)
        self.steps.run(
            [*words, *self._server(), _JOB_LOG, _QUIET],
            log=f"{output.stem}-trace", cwd=self.home, stdin=self.home / "job.sql",
        )  # fmt: skip

    def _bring(self, program: Path) -> None:
        self.steps.output(["cp", program, self.home / "mariadbd"])

    def _server(self) -> list[object]:
        """Return the server's command, but for what differs."""
        share = [f"--lc-messages-dir={self.home}", f"--character-sets-dir={self.home / 'charsets'}"]
        data = [f"--datadir={self.home / 'data'}", f"--tmpdir={self.home}"]
        return [self.home / "mariadbd", "--no-defaults", *data, *share, *_SETTINGS]

    def simulate(self, program: Path, trace: Path, layouts: Sequence[str], windows: int) -> dict[str, Any]:
        """Return the replay of *trace* under *layouts* with up to *windows* huge ones, as `simulate --format json`."""
        return tracing.replayed(self.steps, trace, program, layouts, CPUS, [*PART, "--windows", f"0-{windows}"])
