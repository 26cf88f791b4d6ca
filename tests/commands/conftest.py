"""The program of tests/profiles, built once for each file of tests."""

from pathlib import Path

import pytest

from hugealign.code.callsites import CallSites
from tests.commands.profiles import build


@pytest.fixture(scope="module")
def prog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("prog"))


@pytest.fixture
def any_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """The callers of these chains are made up: no call is there."""
    monkeypatch.setattr(CallSites, "possible", lambda _, __: True)
