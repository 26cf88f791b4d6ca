"""A slice of the fuzzing of commands, and what was ever found; for more, ``python -m tests.fuzz.commands``."""

import pytest

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
    result = running.run([item for _, item in kept])
    assert {str(path): problem for (path, _), problem in zip(kept, result, strict=True) if problem} == {}
