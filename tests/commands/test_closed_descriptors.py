"""Commands whose parent has closed stdin, stdout or stderr: no file of theirs is written into.

The status is the same, but that of a command whose output is lost: it is 3, as on a full disk.
"""

import itertools
import shutil
from pathlib import Path

import pytest

from tests.link.bulk import MAIN, bulk_object
from tests.support import HUGEALIGN, Elf, run, worded

CLOSED = [" ".join(c) for count in range(4) for c in itertools.combinations(("0<&-", "1>&-", "2>&-"), count)]
COMMANDS = {
    "fix --in-place program": 0,
    "fix --in-place absent": 3,
    "verify program": 1,
    "verify --json program": 1,
    "verify -": 3,
    "order profile -b program -o order": 0,
    "order absent -b program": 3,
    "explain HA001": 0,
    "explain HA999": 2,
    "warm --check program": 1,
    "run -- sh -c 'exit 7'": 7,
    "build -- sh -c 'exit 8'": 8,
}

PRINTING = {command for command, status in COMMANDS.items() if status < 2}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("closed")
    (place / "main.c").write_text(MAIN)
    run("gcc", "main.c", bulk_object(place), "-o", "program", cwd=place, check=True)
    (place / "profile").write_text("main;big_sum 100\nmain 20\n")
    return place


@pytest.mark.parametrize("command", COMMANDS)
def test_closed_descriptors(command: str, made: Path, tmp_path: Path) -> None:
    outcomes = set()
    for number, closed in enumerate(CLOSED):
        work = tmp_path / str(number)
        work.mkdir()
        for name in ("program", "profile"):
            shutil.copy2(made / name, work)
        done = run("sh", "-c", f"{HUGEALIGN} {command} {closed}", cwd=work)
        files = {path.name: path.read_bytes() for path in work.iterdir()}
        outcomes.add(tuple(sorted(files.items())))
        lost = "1>&-" in closed and command in PRINTING
        assert done.returncode == (3 if lost else COMMANDS[command]), (closed, done.stderr)
    assert len(outcomes) == 1


def test_a_message_does_not_go_to_standard_output_where_standard_error_is_closed(tmp_path: Path) -> None:
    done = run("sh", "-c", f"{HUGEALIGN} explain HA999 2>&-", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("stdin", "message"),
    [("<&-", "no files on standard input"), (">/dev/null", "standard input: cannot be read: Bad file descriptor")],
)
def test_a_list_of_names_that_cannot_be_read_is_no_finding(stdin: str, message: str) -> None:
    done = run("sh", "-c", f"{HUGEALIGN} verify - 0{stdin}")
    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"hugealign: error: {message}\n")


def test_a_hook_without_standard_input_says_what_is_missing() -> None:
    done = run("sh", "-c", f"{HUGEALIGN} oci-hook 0<&-")
    assert (done.returncode, done.stderr) == (
        0,
        f"hugealign: oci-hook: {worded('container.description', part='state')}\n",
    )


@pytest.mark.parametrize(
    ("command", "status"),
    [("verify program", 1), ("verify -", 3), ("run -- sh -c 'exit 7'", 7), ("gcc main.c bulk*.o -o linked", 0)],
)
def test_standard_input_is_a_directory(command: str, status: int, made: Path, tmp_path: Path) -> None:
    """Python itself ends with a fatal error then, and a link through us would fail where the plain one does not."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    done = run("sh", "-c", f"{HUGEALIGN} {command} </", cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert "Python" not in done.stderr
    assert status or Elf(tmp_path / "linked").faults() == []
