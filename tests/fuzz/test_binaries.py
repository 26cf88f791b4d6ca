"""Profiles that only a tool can read: what is not damaged is read, so that damage is seen by more than the tool."""

import importlib.util
import random
import shutil
from pathlib import Path

import pytest

from tests.fuzz import binaries
from tests.fuzz.kinds import KINDS


@pytest.mark.parametrize("kind", binaries.KINDS)
def test_whole_profiles_are_read(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    tool = KINDS[kind].needs
    if not (shutil.which(tool) or importlib.util.find_spec(tool)):
        pytest.skip(f"{tool} is not installed")
    monkeypatch.chdir(tmp_path)
    for name, data in binaries.beside(kind)().items():
        (tmp_path / name).write_bytes(data)
        (tmp_path / name).chmod(0o755)
    Path("x").write_bytes(binaries._made(kind.partition("-")[2])["x"])
    for command in KINDS[kind].commands:
        assert KINDS[kind].run(["x" if word == "@" else word for word in command]) == 0, capfd.readouterr().err
    assert KINDS[kind].make(random.Random(1)) != Path("x").read_bytes()
