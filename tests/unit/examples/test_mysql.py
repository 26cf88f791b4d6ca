"""The MariaDB example: apt's entries, CMake's link command, mysql-test-run's verdicts, the trace's job, the report."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
CPUS = ("ivybridge", "skylake", "sapphirerapids", "zen4")


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, ModuleType]]:
    """The example's modules, which lie where only it looks."""
    before = list(sys.path)
    sys.path[:0] = [str(EXAMPLES / "mysql"), str(EXAMPLES / "postgres"), str(EXAMPLES)]
    try:
        names = ("steps", "report", "debian", "mariadb", "mysqljob", "mysqlreport", "mysqlserver")
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path[:] = before


# ---- apt's entries ---------------------------------------------------------------------------------------------------

DEB822 = """\
# a comment
Types: deb
URIs: http://archive.example/debian http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQ

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: http://vendor.example/apt
Suites: nodistro
Components: main
"""
ONE_LINE = """\
deb [arch=amd64 signed-by=/k.gpg] http://one.example/debian bookworm main non-free
# deb http://commented.example/debian bookworm main
deb-src http://two.example/debian bookworm main
deb http://three.example/debian bookworm contrib
deb cdrom:[Debian]/ bookworm main
"""


def test_entries_become_source_entries(modules: dict[str, ModuleType]) -> None:
    found = list(modules["debian"].stanzas("debian.sources", DEB822, "bookworm"))
    assert [line for text in found for line in text.splitlines() if line.startswith("URIs")] == [
        "URIs: http://archive.example/debian",
        "URIs: http://mirror.example/debian",
    ]
    assert all(text.startswith("Types: deb-src\n") and "\nSuites: bookworm\n" in text for text in found)
    assert "\n .\n mQ\n" in found[0]
    found = list(modules["debian"].stanzas("sources.list", ONE_LINE, "bookworm"))
    assert [text.splitlines()[1] for text in found] == [
        "URIs: http://one.example/debian",
        "URIs: http://two.example/debian",
    ]
    assert "Signed-By: /k.gpg" in found[0]
    assert "Signed-By" not in found[1]


# ---- linking again ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["c++ main.o", "c++ main.o -o other", "c++ -o mariadbd -o mariadbd", "c++ -o", ""])
def test_an_unknown_link_command_is_refused(modules: dict[str, ModuleType], command: str) -> None:
    with pytest.raises(modules["steps"].Failed, match="link command"):
        modules["mariadb"].relink_script(command, Path("/tree"))


# ---- MariaDB's tests -------------------------------------------------------------------------------------------------

MTR = """\
TEST                                      RESULT   TIME (ms) or COMMENT
--------------------------------------------------------------------------
worker[01] Using MTR_BUILD_THREAD 300, with reserved ports 16000..16029
main.1st                                 w1 [ pass ]      7
main.commit_1innodb 'innodb'             w2 [ pass ]   1204
main.func_math                           w1 [ skipped ]  Requires something
main.join                                w2 [ fail ]
        Test ended at 2026-11-21 20:00:00
main.join                                w2 [ retry-pass ]   3000
main.win                                 w1 [ disabled ]  MDEV-1
The servers were restarted 3 times
"""


def test_verdicts_are_counted(modules: dict[str, ModuleType]) -> None:
    """A test that passes at a second try has failed."""
    assert modules["mariadb"].tested(MTR) == (2, 2, 1)
    assert modules["mariadb"].tested("") == (0, 0, 0)


# ---- the job ---------------------------------------------------------------------------------------------------------


def test_the_job_is_the_same_each_time(modules: dict[str, ModuleType]) -> None:
    """So many statements, each ended on its line, which is how --bootstrap reads them."""
    script = modules["mysqljob"].script
    lines = list(script(50))
    assert lines == list(script(50)) == list(script(60))[: len(lines)]
    assert len(lines) == 50 * 20
    assert all(line.endswith(";") and "\n" not in line for line in lines)
    assert lines.count("BEGIN;") == lines.count("COMMIT;") == 50
    # A row that is deleted comes back in the same table, so that the data keeps its size.
    gone = [line.split()[2:] for line in lines if line.startswith("DELETE")]
    back = [line.split() for line in lines if line.startswith("INSERT")]
    assert all(
        out[0] == into[2] and out[2] == f"id={into[8].strip('(,')};" for out, into in zip(gone, back, strict=True)
    )


def test_the_job_has_its_data_and_reads_them_first(modules: dict[str, ModuleType]) -> None:
    """What is not read before the first BEGIN is read by InnoDB's threads, at times of their own."""
    job, count = modules["mysqljob"], modules["mysqlserver"].TABLES
    made, read = "\n".join(job.tables()), "\n".join(job.warm_up())
    assert made.count("SET TIMESTAMP=") == read.count("SET TIMESTAMP=") == 1
    assert made.rstrip().endswith(";")
    for table in range(1, count + 1):
        assert f"CREATE TABLE sbtest{table} (" in made
        assert f"FROM seq_1_to_{modules['mysqlserver'].ROWS};" in made
        for index in ("PRIMARY", f"k_{table}"):
            assert f"FROM sbtest{table} FORCE INDEX ({index})" in read
    assert f"sbtest{count + 1}" not in made + read


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that sees what the traced server sees of the machine."""
    library = tmp_path_factory.mktemp("alike") / "alike.so"
    words = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(library)]
    subprocess.run([*words, str(EXAMPLES / "mysql" / "alike.c")], check=True)
    return {"LD_PRELOAD": str(library), "PATH": "/usr/bin:/bin"}


def test_each_machine_looks_the_same(alike: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "sys").write_text("there")
    script = """
import os, sys
print(os.getpid(), os.path.exists("/sys/kernel"), open("sys").read())
os.close(os.open("new", os.O_CREAT | os.O_WRONLY, 0o640))
print(oct(os.stat("new").st_mode & 0o777))
try:
    open("/sys/kernel/mm/transparent_hugepage/enabled")
except FileNotFoundError:
    print("hidden")
sys.stdout.flush()
os.kill(os.getpid(), 15)
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], env=alike, cwd=tmp_path, capture_output=True, text=True, check=False,
        timeout=60, umask=0o022,
    )  # fmt: skip
    assert (done.stdout.split(), done.returncode) == (["4321", "True", "there", "0o640", "hidden"], -15), done.stderr


# ---- the report ------------------------------------------------------------------------------------------------------


def simulated(scale: int) -> dict[str, Any]:
    layouts = {"original": range(6), "all-4k": (0,), "all-2m": (5,)}
    layouts |= {f"order:/build/orders/{name}.order": range(6) for name in ("ordered", "leading")}
    rows = [
        {"layout": layout, "cpu": cpu, "windows": windows, "misses": scale * (10 - windows), "walks": 1, "mpki": 0.1}
        for layout, counts in layouts.items()
        for cpu in CPUS
        for windows in counts
    ]
    return {"blocks": 1000 * scale, "instructions": 5000, "threads": 11, "rows": rows}


def results(counters: dict[str, int] | None) -> dict[str, Any]:
    variants = ("plain", "hugealign", "ordered", "leading")
    runs = {name: [[100.0 + number + at, 2000.0 - number] for at in range(6)] for number, name in enumerate(variants)}
    return {
        "version": "1:10.11-0",
        "seconds": {"source": 12, "make-server": 3600},
        "check": {"status": 0, "asked": 2, "passed": 3, "skipped": 0, "failed": 0},
        "tools": 30,
        "profile": {name: {"samples": 10, "pages": 5, "windows": [5] * (at + 1)} for at, name in enumerate(variants)},
        "orders": {"ordered": "a table\n", "leading": "another\n"},
        "verify": {
            name: {"text_bytes": 9 << 20, "huge_bytes": 9 << 20, "windows": 5, "size": 1, "disk": 1, "verdict": "ok"}
            for name in variants
        },
        "measure": {
            "text": {name: {"mapped": 10 << 20, "huge": 10 << 20} for name in variants},
            "ps": {"hugealign": "all 5 windows are huge"},
            "runs": {"oltp_read_only": runs, "oltp_read_write": runs},
            "counters": dict.fromkeys(variants, counters),
            "load": 7.0,
        },
        "reference": {"words": "so they are", "counts": {"misses ordered skylake 1": 268}},
        "trace": {
            "hugealign": simulated(100),
            "hugealign-2": simulated(101),
            **{n: simulated(99) for n in variants[2:]},
        },
    }


@pytest.mark.parametrize("counters", [None, {"instructions": 1000, "iTLB-load-misses": 3}])
def test_the_report_is_one_that_can_be_written(
    modules: dict[str, ModuleType], tmp_path: Path, counters: dict[str, int] | None
) -> None:
    document = json.loads(json.dumps(modules["mysqlreport"].document(tmp_path, results(counters))))
    text, pictures = modules["report"].markdown(modules["report"].parse(document), "mysql")
    assert all(picture.endswith("</svg>\n") for picture in pictures)
    assert text.count(".svg)") == len(pictures)
    assert ("Not measured." in text) == (counters is None)
    assert text.count("The load average was 7.0 at most. So other work shared these processors") == 2
    assert "| skylake | 1,000 | 500 | 900 | 500 (5) | 900 | 500 (5) | 900 | 500 (5) |" in text  # the tables of misses
    assert "| blocks | 100,000 | 101,000 | 1,000 |" in text
    assert "They differ in" in text
    assert "| leading | zen4 | 1 | 900 | 891 | -1.00 % |" in text
    assert "examples/mysql/reference, and replayed here on this run's own trace: so they are" in text
    assert "| ordered | 10 | 5 | 50.00 % | 100.00 % | 150.00 % | 150.00 % |" in text


def test_the_report_says_that_two_recordings_are_the_same(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    found = results(None)
    found["trace"]["hugealign-2"] = simulated(100)
    found["reference"] = None
    found["measure"]["load"] = 1.2
    document = json.loads(json.dumps(modules["mysqlreport"].document(tmp_path, found)))
    text, _ = modules["report"].markdown(modules["report"].parse(document), "mysql")
    assert "| misses, all 4 KiB, zen4 | 1,000 | 1,000 | 0 |" in text
    assert "are the same to the digit" in text
    assert "They differ" not in text
    assert "reference run" not in text
    assert text.count("The load average was 1.2 at most.\n") == 2


def test_one_count_that_differs_is_told(modules: dict[str, ModuleType]) -> None:
    differences, first, second = modules["mysqlreport"].differences, simulated(100), simulated(100)
    assert differences(first, second) == []
    second["rows"][3]["walks"] += 1
    second["rows"][-1]["misses"] -= 1
    second["instructions"] += 1
    walked, missed = (f"{second['rows'][at]['cpu']}, {second['rows'][at]['windows']}" for at in (3, -1))
    assert differences(first, second) == [
        "instructions",
        f"misses, order:/build/orders/leading.order, {missed}",
        f"walks, original, {walked}",
    ]
