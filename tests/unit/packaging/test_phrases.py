"""``make check`` finds each phrase that CONTRIBUTING.md rules out, where a person reads it, and nothing else."""

import importlib
from types import ModuleType

import pytest

from tests.support import ROOT


@pytest.fixture
def phrases(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "packaging")
    return importlib.import_module("phrases")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A fix mends the file, and cures HA001.", ["mends", "cures"]),
        ("The linker is told of the list.", ["is told"]),
        ("Objects are told apart by name; bytes are told from code.", []),
        ("The offset is congruent.", ["congruent"]),
        ("The offset is congruent modulo the window.", []),
        ("It asks for huge pages, or asked\nfor them.", ["asks for", "asked\nfor"]),
        ("It asks what is requested.", []),
        ("--now goes with --all.", ["goes with"]),
        ("Slow for want of memory.", ["for want of"]),
        ("Nobody maps it, or somebody does.", ["Nobody", "somebody"]),
        ("The user `nobody` owns it, or the user nobody.", []),
        ("It links as without hugealign, as fast as without hugealign.", ["as without hugealign"]),
        ("A script is no object, and a list is none.", ["is no", "is none"]),
        ("There is no object, and it is no longer there; *x* is None.", []),
        ("Libraries are huge, too. A break besides.", [", too", "besides"]),
        ("libraries, too", [", too"]),
        ("It is too small, besides those that are not.", []),
        ("A lock stands in the way.", ["stands in the way"]),
        ("The same file comes out.", ["comes out"]),
        ('Before ``asked for`` and "asked for":\n```\nasked for\n```\n', []),
    ],
)  # fmt: skip
def test_phrases(text: str, expected: list[str], phrases: ModuleType) -> None:
    assert [words for _, words, _ in phrases.found(text)] == expected


def test_places(phrases: ModuleType) -> None:
    module = '"""One."""\nX = "two"  # three\nclass C:\n    """Four."""\n\n    y: int\n    """Five."""\n'
    assert sorted(phrases.prose("a.py", module)) == [(1, "One."), (2, "# three"), (4, "Four."), (7, "Five.")]
    assert (2, "two") in phrases.prose("hugealign/a.py", module)
    assert list(phrases.prose("a.sh", "# one\ntwo  # three\n${x#y}\n")) == [(1, "# one"), (2, " # three")]
    assert list(phrases.prose("a.c", "one // two\n/* three\n */\n")) == [(1, "// two"), (2, "/* three\n */")]
    assert list(phrases.prose("a.md", "one")) == [(1, "one")]
    assert list(phrases.prose("a.json", "one")) == []


def test_each_row_of_the_table_has_a_pattern(phrases: ModuleType) -> None:
    rows = phrases.rows((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert rows == list(phrases.PATTERNS)
