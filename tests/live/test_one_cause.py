"""One cause has one code, whichever command comes upon it."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.programs import NO_THP, ROOT, Programs, chill, hugealign, running
from tests.live.test_advise import SPREAD
from tests.live.test_copy_diagnoses import LAUNCH
from tests.support import diagnoses

#: A process and its program; what is around the commands that ask.
Case = tuple[int, Path, tuple[str, ...]]


@contextmanager
def disabled(programs: Programs, place: Path) -> Iterator[Case]:
    path = place / "program"
    shutil.copy(programs.good, path)
    with running(*NO_THP, path, "5") as child:
        yield child.pid, path, NO_THP


@contextmanager
def forbidding(_: Programs, place: Path) -> Iterator[Case]:
    path, orders = place / "arena", place / "orders"
    subprocess.run(["gcc", "-O2", "-o", path, ROOT / "tests/live/arena.c"], check=True)
    with running("sh", "-c", f"mkfifo {orders}; exec {path} 2 1 <>{orders}") as child:
        orders.write_text("forbid\n", encoding="ascii")
        while " nh" not in Path(f"/proc/{child.pid}/smaps").read_text(encoding="utf-8"):
            time.sleep(0.01)
        yield child.pid, path, ()


@contextmanager
def replaced(programs: Programs, place: Path) -> Iterator[Case]:
    path = place / "program"
    shutil.copy(programs.good, path)
    chill(path)
    with running(path, "5") as child:
        shutil.copy(programs.good, place / "upgrade")
        (place / "upgrade").replace(path)
        yield child.pid, path, ()


@contextmanager
def without_window(programs: Programs, place: Path) -> Iterator[Case]:
    path = place / "program"
    shutil.copy(programs.plain, path)
    with running("setarch", "-R", path, "5") as child:
        yield child.pid, path, ()


@contextmanager
def busy(_: Programs, place: Path, *prefix: str) -> Iterator[Case]:
    """A program that runs on more pages than the processor in question has entries for."""
    path = place / "spread"
    subprocess.run(["gcc", "-O1", "-xc", "-", "-o", path], input=SPREAD, text=True, check=True)
    if prefix:  # there are windows, then, and another cause
        assert hugealign("fix", "--in-place", path).returncode == 0
    with subprocess.Popen([*prefix, "setarch", "-R", path, "1000", "60000"]) as child:
        try:
            while Path(f"/proc/{child.pid}/exe").readlink() != path:
                time.sleep(0.01)
            yield child.pid, path, prefix
        finally:
            child.kill()


def busy_disabled(programs: Programs, place: Path) -> AbstractContextManager[Case]:
    return busy(programs, place, *NO_THP)


@contextmanager
def missing(_: Programs, place: Path) -> Iterator[Case]:
    yield 0, place / "missing", ()


def launched(case: Case) -> subprocess.CompletedProcess[str]:
    words = ("env", f"PYTHONPATH={ROOT}", sys.executable, "-c", LAUNCH, "auto", str(case[1]), "")
    return subprocess.run([*case[2], *words], check=True, capture_output=True, text=True, cwd="/")


#: How each command looks at a case.
ASKED: dict[str, Callable[[Case], subprocess.CompletedProcess[str]]] = {
    "advise": lambda case: hugealign(
        "advise", "--json", "--cpu", "skylake", "--frequency", "1999", "--seconds", "1", str(case[0])
    ),
    "adapt": lambda case: hugealign("adapt", "--json", "--windows", "2", str(case[0])),
    "doctor": lambda case: hugealign("doctor", "--json", case[1].parent, prefix=case[2]),
    "fix": lambda case: hugealign("fix", "--dry-run", "--json", case[1]),
    "ps": lambda case: hugealign("ps", "--json", "--all", str(case[0])),
    "run": launched,
    "stage": lambda case: hugealign("stage", "--json", "--store", case[1].parent / "store", case[1]),
    "top": lambda _: hugealign("top", "--once", "--json"),
    "verify": lambda case: hugealign("verify", "--json", case[1]),
    "warm": lambda case: hugealign("warm", "--json", case[1], prefix=case[2]),
}
#: The code, its situation, and the commands that can see it.
ROWS: list[tuple[str, Callable[[Programs, Path], AbstractContextManager[Case]], str]] = [
    ("process.thp-disabled", disabled, "doctor ps run top"),
    ("program.small-pages", forbidding, "adapt ps top"),
    ("file.replaced", replaced, "ps top"),
    ("text.no-window", without_window, "adapt ps run stage top warm"),
    ("text.no-window", busy, "adapt advise ps top"),
    ("process.thp-disabled", busy_disabled, "advise ps top"),
    ("file.unreadable", missing, "fix stage verify warm"),
]


def result(command: str, case: Case) -> list[dict[str, Any]]:
    """Return the diagnoses that *command* has of the case: those of other processes do not count."""
    document = json.loads(ASKED[command](case).stdout)
    rows = [row for row in document["rows"] if case[0] in row["pids"]] if command == "top" else document
    return list(diagnoses(rows))


@pytest.mark.parametrize(
    ("code", "situation", "commands"), ROWS, ids=[f"{code}-{make.__name__}" for code, make, _ in ROWS]
)
def test_one_cause_has_one_code(
    programs: Programs,
    code: str,
    situation: Callable[[Programs, Path], AbstractContextManager[Case]],
    commands: str,
) -> None:
    place = programs.directory / "cause"
    place.mkdir()
    try:
        with situation(programs, place) as case:
            seen = {command: {item["code"] for item in result(command, case)} for command in commands.split()}
    finally:
        shutil.rmtree(place)
    assert {command for command, codes in seen.items() if code in codes} == set(commands.split()), seen
