"""The damaged ELF files of the fuzzing: they are whole again afterwards, and neither too wild nor too tame."""

import os
import random
from collections.abc import Iterator

import pytest

from hugealign.verification import checking
from hugealign.verification.rules import Policy
from tests.fuzz import elf, fix


@pytest.fixture(scope="module")
def subjects() -> Iterator[list[elf.Subject]]:
    files = fix.corpus()
    assert "pie" in files
    found = elf.subjects(files)
    yield found
    for subject in found:
        os.close(subject.fd)


def test_a_file_is_whole_again_after_its_mutation(subjects: list[elf.Subject]) -> None:
    for case in range(200):
        subject = subjects[case % len(subjects)]
        elf.Mutator(random.Random(case), subject).mutate()
        subject.restore()
        assert os.pread(subject.fd, len(subject.data) + 1, 0) == subject.data


def test_a_file_that_was_cut_and_then_made_as_long_again(subjects: list[elf.Subject]) -> None:
    for subject in subjects:
        subject.truncate(100)
        subject.write(len(subject.data) - 4, b"last")
        subject.restore()
        assert os.pread(subject.fd, len(subject.data) + 1, 0) == subject.data


def test_neither_too_wild_nor_too_tame(subjects: list[elf.Subject]) -> None:
    """Of 600 damaged files, many can be read, some of these have findings, some can be fixed, and many cannot."""
    policy = Policy(page_size=elf.PAGE, min_text=0)
    read = found = 0
    became = []
    for case in range(600):
        subject = subjects[case % len(subjects)]
        chance = random.Random(f"1/{case}")
        elf.Mutator(chance, subject).mutate()
        report = checking.check_fd(subject.fd, subject.name, policy)
        read += not report.problem
        found += bool(report.diagnoses)
        became.append(fix.check(subject.fd, chance.choice(fix.LEVELS)))
        subject.restore()
    assert 150 < read < 600
    assert found > 150
    assert became.count("fixed") > 50
    assert became.count("refused") > 200
