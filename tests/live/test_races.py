"""Root's commands in the directories of others, who exchange names meanwhile: see `tests.differential.races`."""

import os
import shutil

import pytest

from tests.differential.races import RACES, races

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is needed, whose commands these are")


@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize(
    "count", [10, pytest.param(2000, marks=[pytest.mark.matrix, pytest.mark.timeout(7200)])], ids=["some", "all"]
)
def test_race(race: str, count: int) -> None:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    assert races([race], count, seed=1) == []
