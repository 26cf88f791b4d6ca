"""The jobs that are traced: the same statements each time, and their data."""

import re
from pathlib import Path

import pytest

from examples.mysql import job as mysql
from examples.postgres import job as postgres
from examples.servers.steps import Failed

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def test_postgres_has_the_same_job_each_time() -> None:
    lines = "".join(postgres.script(150)).splitlines()
    assert lines == "".join(postgres.script(150)).splitlines()
    assert not [line for line in lines if ":" in line]  # no variable is left
    assert [sum(line.startswith(word) for line in lines) for word in ("BEGIN", "END", "INSERT")] == [150] * 3
    rows = {int(row) for row in re.findall(r"aid = (\d+)", "\n".join(lines))}
    assert len(rows) > 500
    assert min(rows) >= 1
    assert max(rows) <= 100_000


def test_the_job_of_postgres_has_its_tables() -> None:
    """A command on each line, as single-user mode reads them; ANALYZE draws no rows but takes all."""
    lines = (EXAMPLES / "postgres" / "tables.sql").read_text().splitlines()
    made = {found[1] for line in lines if (found := re.match(r"CREATE TABLE (\w+) \(", line))}
    used = set(re.findall(r"pgbench_\w+", "".join(postgres.script(101))))
    assert made == used
    assert len(made) == 4
    assert sum(line.startswith("INSERT") for line in lines) == 3
    assert {line.split()[2] for line in lines if "ADD PRIMARY KEY" in line} == made - {"pgbench_history"}
    target = next(int(found[1]) for line in lines if (found := re.search(r"default_statistics_target = (\d+)", line)))
    assert 300 * target >= 100_000
    assert lines[-1] == "VACUUM ANALYZE"


def test_mariadb_has_the_same_job_each_time() -> None:
    """So many statements, each ended on its line, which is how --bootstrap reads them."""
    lines = list(mysql.script(50))
    assert lines == list(mysql.script(50)) == list(mysql.script(60))[: len(lines)]
    assert len(lines) == 50 * 20
    assert all(line.endswith(";") and "\n" not in line for line in lines)
    assert lines.count("BEGIN;") == lines.count("COMMIT;") == 50
    # A row that is deleted comes back in the same table, so that the data keeps its size.
    gone = [line.split()[2:] for line in lines if line.startswith("DELETE")]
    back = [line.split() for line in lines if line.startswith("INSERT")]
    assert all(
        out[0] == into[2] and out[2] == f"id={into[8].strip('(,')};" for out, into in zip(gone, back, strict=True)
    )


def test_the_job_of_mariadb_has_its_data_and_reads_them_first() -> None:
    """What is not read before the first BEGIN is read by InnoDB's threads, at times of their own."""
    made = (EXAMPLES / "mysql" / "tables.sql").read_text()
    text = "".join(mysql.job())
    read = text[: text.index("BEGIN;")]
    assert made.count("SET TIMESTAMP=") == read.count("SET TIMESTAMP=") == 1
    assert made.endswith(";\n")
    for table in range(1, mysql.TABLES + 1):
        assert f"CREATE TABLE sbtest{table} (" in made
        for index in ("PRIMARY", f"k_{table}"):
            assert f"FROM sbtest{table} FORCE INDEX ({index})" in read
    assert made.count(f"FROM seq_1_to_{mysql.ROWS};") == mysql.TABLES
    assert f"sbtest{mysql.TABLES + 1}" not in made + read
    assert read.endswith("DO SLEEP(5);\n")


@pytest.mark.parametrize("command", ["c++ main.o", "c++ main.o -o other", "c++ -o mariadbd -o mariadbd", "c++ -o", ""])
def test_an_unknown_link_command_is_refused(command: str) -> None:
    with pytest.raises(Failed, match="link command"):
        mysql.relink_script(command, Path("/tree"))
