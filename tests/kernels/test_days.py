"""Days of an ML engineer and of a Node shop, typed from the guides in a Debian 12."""

import os

import pytest

from tests.kernels import days
from tests.support import need

pytestmark = [pytest.mark.kernels, pytest.mark.timeout(3 * days.SECONDS)]


@pytest.mark.parametrize("place", days.PLACES)
def test_all_text_of_the_libraries_that_matter_is_huge(place: str) -> None:
    if os.geteuid():
        pytest.skip("root is needed")
    need("mmdebstrap", "npm", *(("podman", "crun") if place == "container" else ()))
    results = days.PLACES[place](days.tree())
    least = [share for _, _, libraries in days.DAYS.values() for share in libraries.values()]
    told = "\n".join(one["ps"] + one["said"] for one in results if one["when"] == "after")
    for (name, before, after, text), share in zip(days.rows(results), least, strict=True):
        assert (before, 100 * after >= share * text) == (0, True), (name, before, after, text, told)
    for undone in (one for one in results if one["when"] == "undone"):
        assert undone["said"].endswith(" files restored\n")
