"""Commands whose system calls fail, one at a time: see `tests.differential.faults`."""

import os
import shutil

import pytest

from tests.differential.faults import COMMANDS, faults


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    "count", [4, pytest.param(1 << 30, marks=[pytest.mark.matrix, pytest.mark.timeout(7200)])], ids=["some", "all"]
)
def test_command(name: str, count: int) -> None:
    if missing := [tool for tool in ("strace", "gcc") if not shutil.which(tool)]:
        pytest.skip(f"{missing[0]} is not installed")
    if COMMANDS[name].root and os.geteuid():
        pytest.skip("root is needed")
    assert faults(name, count, seed=1) == []
