"""The journal: a line is there before its change, and what is damaged or foreign in it harms nothing."""

import json
import os
import stat
from pathlib import Path

import pytest

from hugealign.diagnosis.values import Diagnosis
from hugealign.io import places
from hugealign.io.regular import named
from hugealign.system import journal
from hugealign.system.journal import FIXED, REPLACED


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the journal is: nothing is there yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/hugealign"


def note(path: str | Path, change: str = FIXED) -> Diagnosis | None:
    with journal.noted(change, places.real(str(path))) as result:
        return result


def paths() -> list[str]:
    return [entry.path for entry in journal.entries()]


def test_a_line_is_there_before_the_change_and_after(place: Path, tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("text")
    link.symlink_to(file)
    info = file.stat()
    with journal.noted(REPLACED, named(str(link))) as result:
        assert result is None
        (entry,) = journal.entries()
        assert (entry.change, entry.path) == (REPLACED, str(file))
        assert entry.state == (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)
        journal.prune(lambda _: False)  # not while another process is at work
        assert paths() == [str(file)]
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert stat.S_IMODE((place / "journal").stat().st_mode) == 0o600
    line = json.loads((place / "journal").read_text())
    assert (line["schema"], line["change"], line["path"]) == ("hugealign.journal/1", REPLACED, str(file))
    journal.prune(lambda _: False)
    assert (paths(), place.exists()) == ([], False)


def test_the_last_line_of_each_change_and_path_counts(place: Path) -> None:
    for path in ("/a", "/b", "/a", "/caf\udce9", '/"\n'):
        note(path)
    note("/a", REPLACED)
    assert sorted(paths()) == ['/"\n', "/a", "/a", "/b", "/caf\udce9"]
    journal.prune(lambda entry: entry.change == REPLACED or "caf" in entry.path)
    assert sorted(paths()) == ["/a", "/caf\udce9"]
    assert len((place / "journal").read_bytes().splitlines()) == 2


LINE = '{"schema": "hugealign.journal/1", "time": 1, "change": "fixed", "path": "/x", "state": [1, 2, 3, 4]}'


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[" * 100_000,
        "\xff\0",
        "3",
        "null",
        "[]",
        LINE[:-1],
        LINE.replace("journal/1", "journal/2"),
        LINE.replace('"fixed"', '"broken"'),
        LINE.replace('"fixed"', "[]"),
        LINE.replace('"/x"', '"x"'),
        LINE.replace('"/x"', '"/x\\u0000"'),
        LINE.replace('"/x"', '"/\\ud800"'),
        LINE.replace('"/x"', "null"),
        LINE.replace("[1, 2, 3, 4]", "1"),
        LINE.replace("[1, 2, 3, 4]", '["1"]'),
        LINE.replace("[1, 2, 3, 4]", "[1e999]"),
        LINE.replace('"time": 1', '"time": -1'),
        LINE.replace('"time": 1', '"time": ' + "9" * 5000),
    ],
)
def test_lines_that_are_none_of_ours_are_left_out(place: Path, line: str) -> None:
    note("/a")
    with (place / "journal").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n{LINE}\n{line}")
    assert paths() == ["/a", "/x"]
    note("/b")  # begins a line of its own
    assert paths() == ["/a", "/x", "/b"]


#: What is wrong -> what the diagnosis says of it.
OBSTACLES = {
    "fifo": "EINVAL",
    "link": "ELOOP",
    "directory": "EISDIR",
    "full": "EFBIG",
    "a file above it": "ENOTDIR",
    "no home": "ENOENT",
    "others": "others-may-write",
}


@pytest.mark.parametrize("what", OBSTACLES)
def test_a_journal_that_cannot_be_written_keeps_nobody_from_the_change(
    place: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    name = place / "journal"
    place.mkdir(parents=True)
    if what == "fifo":
        os.mkfifo(name)
    elif what == "link":
        name.symlink_to(place / "elsewhere")
    elif what == "directory":
        name.mkdir()
    elif what == "full":
        with name.open("ab") as file:
            file.truncate(4 << 20)
    elif what == "a file above it":
        name.touch()
        monkeypatch.setenv("XDG_STATE_HOME", str(name))
    elif what == "no home":
        monkeypatch.delenv("XDG_STATE_HOME")
        monkeypatch.setattr(os, "geteuid", lambda: 1234)
        monkeypatch.setenv("HOME", str(place / "none"))
    else:
        place.parent.chmod(0o777)
    result = note("/x")
    assert result
    assert (result.code, result.subject) == ("machine.no-journal", "/x")
    assert result.facts["error"] == OBSTACLES[what]
    assert not (place / "elsewhere").exists()
    assert not (place / "none").exists()
    assert (result.remedy and result.remedy.argv) == (("hugealign", "status") if what == "full" else None)


def test_what_status_takes_out_makes_room(place: Path) -> None:
    note("/a")
    with (place / "journal").open("ab") as file:
        file.truncate(4 << 20)
    result = note("/b")
    assert result
    assert result.facts["error"] == "EFBIG"
    journal.prune(lambda _: True)
    assert note("/b") is None
    assert paths() == ["/a", "/b"]
