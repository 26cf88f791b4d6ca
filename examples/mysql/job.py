"""The trace: fixed SQL in ``mariadbd --bootstrap``, which runs it in one thread without clients, and ends.

The statements are those of sysbench's oltp_read_write, with values from a generator of our own.  The thread that runs
them runs the same blocks each time, on any machine with the same packages, and only it counts, from the first BEGIN to
the server's end.  For that,

- no other thread works beside it: --innodb-force-recovery=2 leaves out purge and the master thread, nothing is dirty
  enough to be written, nothing is read ahead, and all of the tables is in the buffer pool before the first BEGIN;
- the data are made by a server under the same rule, not by clients of one whose threads go by the clock;
- the log's size is another when the data are made, so that InnoDB makes a new log, whose buffer begins at one place
  whatever the log held before;
- everything lies in a directory whose name is as long each time, options set what the machine would size, and
``alike.c``
  hides the rest of it: how long a string is decides where the next one lies, and that which way memcpy takes.

``SET TIMESTAMP``, or each statement asks whether the clock has moved on since the last.  The statistics' tables are
those of scripts/mysql_system_tables.sql: without them InnoDB estimates from pages that it chooses at random.  Start and
end of the server do not count: they wait for clocks.
"""

# ruff: noqa: S608 - no value in these statements comes from anywhere else

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from examples.servers.server import Example
from examples.servers.steps import Failed

_BESIDE = Path(__file__).parent
TABLES, ROWS = 4, 10_000
TRANSACTIONS = 100


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
        for what, after in (("c", ""), ("SUM(k)", ""), ("c", " ORDER BY c"), ("DISTINCT c", " ORDER BY c")):
            low = number(ROWS - 100)
            yield f"SELECT {what} FROM sbtest{number(TABLES)} WHERE id BETWEEN {low} AND {low + 99}{after};"
        yield f"UPDATE sbtest{number(TABLES)} SET k=k+1 WHERE id={number(ROWS)};"
        yield f"UPDATE sbtest{number(TABLES)} SET c='{digits(10)}' WHERE id={number(ROWS)};"
        table, row = number(TABLES), number(ROWS)
        yield f"DELETE FROM sbtest{table} WHERE id={row};"
        values = f"{row}, {number(ROWS)}, '{digits(10)}', '{digits(5)}'"
        yield f"INSERT INTO sbtest{table} (id, k, c, pad) VALUES ({values});"
        yield "COMMIT;"


def job() -> Iterator[str]:
    """Yield the job's text.

    Before the first BEGIN all of the tables is read, for what is read later is read by threads beside.  Then it waits:
    InnoDB's page cleaner looks once a second whether it is needed, until it has seen that it is not.
    """
    yield (_BESIDE / "warm-up.sql").read_text(encoding="ascii")
    yield from (f"{line}\n" for line in script(TRANSACTIONS))


_SERVER = "mariadbd"


def relink_script(command: str, directory: Path) -> str:
    """Return a script that does the link *command*, CMake's, of *directory* with another compiler; raises Failed."""
    words = [word for word in shlex.split(command) if not re.fullmatch(r"-B.*/libexec/", word)]
    if words.count("-o") != 1 or words[words.index("-o") + 1 :][:1] != [_SERVER]:
        raise Failed(f"CMake's link command of {_SERVER} has not the form that is known: {command.strip()}")
    at = words.index("-o")
    return (
        (_BESIDE / "relink.sh.in")
        .read_text(encoding="utf-8")
        .format(
            compiler=shlex.quote(words[0]),
            directory=shlex.quote(str(directory)),
            before=shlex.join(words[1:at]),
            after=shlex.join(words[at + 2 :]),
        )
    )


def relink(example: Example) -> None:
    """Write ``relink.sh`` below the build directory."""
    directory = example.steps.build / "tree" / "sql"
    command = (directory / "CMakeFiles" / f"{_SERVER}.dir" / "link.txt").read_text(encoding="utf-8")
    script = example.steps.build / "relink.sh"
    script.write_text(relink_script(command, directory), encoding="utf-8")
    script.chmod(0o755)
