"""A slice of the fuzzing of ELF files; the long run is ``python -m tests.fuzz.elf --count 200000``."""

import os
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hugealign.verification import checking
from tests.fuzz import elf


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    found = elf.corpus()
    assert "pie" in found
    return found


@pytest.fixture(scope="module")
def subjects(files: dict[str, bytes]) -> Iterator[list[elf.Subject]]:
    found = elf.subjects(files)
    yield found
    elf.close(found)


def test_two_thousand_files(files: dict[str, bytes]) -> None:
    result = elf.run(2000, 1, files=files)
    assert result.failures == []
    assert result.slowest < elf.SECONDS_LIMIT
    # The mutations are neither so wild that nothing can be read, nor so tame that nothing is wrong.
    assert 500 < result.checked < 2000
    assert result.found > 500


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 20))
def test_what_hypothesis_chooses(subjects: list[elf.Subject], chance: random.Random, which: int) -> None:
    subject = subjects[which % len(subjects)]
    try:
        elf.Mutator(chance, subject).mutate()
        elf.check(subject.fd, subject.name)
    finally:
        subject.restore()


def test_a_file_is_whole_again_after_its_mutation(subjects: list[elf.Subject]) -> None:
    for case in range(200):
        subject = subjects[case % len(subjects)]
        elf.Mutator(random.Random(case), subject).mutate()
        subject.restore()
        with open(f"/proc/self/fd/{subject.fd}", "rb") as file:
            assert file.read() == subject.data


def test_a_file_that_was_cut_and_then_made_as_long_again(subjects: list[elf.Subject]) -> None:
    for subject in subjects:
        subject.truncate(100)
        subject.write(len(subject.data) - 4, b"last")
        subject.restore()
        assert os.pread(subject.fd, len(subject.data) + 1, 0) == subject.data


def test_the_same_numbers_make_the_same_file(files: dict[str, bytes]) -> None:
    first, second = (elf.run(50, 7, files=files) for _ in range(2))
    assert (first.checked, first.found) == (second.checked, second.found)


def test_a_crash_is_noticed(files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "examine", lambda *_: dict[str, int]()["x"])
    result = elf.run(30, 1, files=files)
    assert result.failed
    assert "KeyError" in result.failures[0]


def test_an_escape_is_noticed(subjects: list[elf.Subject], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elf, "_FORMS", [("text", lambda _: "a\x1b[31m")])
    with pytest.raises(AssertionError, match="text prints"):
        elf.check(subjects[0].fd, "x")
