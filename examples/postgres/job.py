"""The trace: a fixed script in PostgreSQL's single-user mode, so that the same code runs, in the same order, each time.

What could differ from run to run, and from machine to machine, is kept from it:

- the data are made by a script in single-user mode, too, where nothing works beside it, and ANALYZE, which draws rows
  at random, is made to take all of them;
- addresses (no randomisation), the environment, what initdb would choose by the machine, and by ``still.c`` the time,
  after which statistics are reported, and the process's number;
- the length of paths, which decides where strings lie: everything is in a directory whose name is as long each time.

Only the script's part counts, not the start, where the number of a piece of shared memory is printed, for example.
"""

from collections.abc import Iterator

_ROUNDS, _BRANCHES, _TELLERS, _ACCOUNTS = 120, 1, 10, 100_000

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


def script(rounds: int) -> Iterator[str]:
    """Yield the job: in each round one transaction and three selects, now and then a report; rows are drawn by us."""
    seed = 12345

    def draw(count: int) -> int:
        nonlocal seed
        seed = (seed * 1103515245 + 12345) % (1 << 31)
        return (seed >> 8) % count + 1

    for number in range(rounds):
        for text in (_TPCB, _SELECT, _SELECT, _SELECT, *([_REPORT] if number % 100 == 0 else [])):
            rows = {"aid": draw(_ACCOUNTS), "tid": draw(_TELLERS), "bid": draw(_BRANCHES)}
            rows["delta"] = draw(5000)
            for name, value in rows.items():
                text = text.replace(f":{name}", str(value))  # noqa: PLW2901
            yield text


def job() -> Iterator[str]:
    """Yield the job's text."""
    return script(_ROUNDS)
