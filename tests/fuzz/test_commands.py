"""A slice of the fuzzing of commands, and what was ever found; for more, ``python -m tests.fuzz.commands``."""

import random
from pathlib import Path

import pytest

from hugealign.link import linkers
from hugealign.verification.verify import verify
from tests.fuzz import archives, links
from tests.fuzz.commands import corpus
from tests.fuzz.kinds import KINDS, case
from tests.fuzz.runner import Runner


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("kind", KINDS)
def test_some_of_each_kind(kind: str, running: Runner) -> None:
    assert running.run([case(kind, 1, number) for number in range(40)]) == [""] * 40


def test_what_was_found_once(running: Runner) -> None:
    kept = corpus()
    assert kept
    found = running.run([one for _, one in kept])
    assert {str(path): problem for (path, _), problem in zip(kept, found, strict=True) if problem} == {}


@pytest.mark.parametrize("kind", archives.KINDS)
def test_most_of_an_archive_is_right(kind: str, tmp_path: Path) -> None:
    """The grammar is neither so wild that no member is found, nor so tame that none is damaged."""
    within = damaged = 0
    for number in range(150):
        (tmp_path / "x").write_bytes(archives.KINDS[kind](random.Random(number)))
        results = verify(tmp_path / "x").files
        within += any("!" in file.path for file in results)
        damaged += any(file.problem and "!" not in file.path for file in results)
    assert kind in ("thin", "compressed") or within > 20
    assert damaged > 10


def test_most_links_are_laid_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What goes in, what comes out and the order are neither so wild nor so tame that the shim keeps out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HUGEALIGN_DEBUG", "1")
    for name, data in links.beside().items():
        (tmp_path / name).write_bytes(data)
        (tmp_path / name).chmod(0o755)
    for kind in ("link-inputs", "link-output", "link-order"):
        for number in range(40):
            one = case(kind, 3, number)
            (tmp_path / "x").write_bytes(one.data)
            KINDS[kind].run(["x" if word == "@" else word for word in one.command])
    said = capfd.readouterr().err
    assert sum(said.count(f" as {name}: ") for name in linkers.KINDS) > 90
    assert said.count("is not an order file") < 20
