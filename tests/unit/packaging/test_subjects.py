"""Which subjects of commits `make check` takes."""

import importlib

import pytest

from tests.support import ROOT


@pytest.mark.parametrize(
    ("subject", "wrong"),
    [
        ("Pass the threshold to verify", False),
        ("Bring back status 3", False),
        ("Pass the threshold to verify.", True),
        ("pass the threshold to verify", True),
        ("The threshold reaches verify", True),
        ("verify gets the threshold", True),
        ("A test of the threshold", True),
        (f"Pass {'a' * 55}", False),
        (f"Pass {'a' * 56}", True),
    ],
)
def test_subject(monkeypatch: pytest.MonkeyPatch, subject: str, wrong: bool) -> None:
    monkeypatch.syspath_prepend(ROOT / "packaging")
    assert importlib.import_module("subjects").wrong(subject) == wrong
