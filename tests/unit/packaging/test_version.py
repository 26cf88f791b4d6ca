"""The files that cannot read the version from hugealign/version.py have the same one."""

import re

import pytest

from hugealign.version import __version__
from tests.support import ROOT

PLACES = {
    "MODULE.bazel": r'version = "([^"]*)"',
    "packaging/hugealign.spec": r"^Version: +(\S+)$",
    "packaging/debian/changelog": r"\Ahugealign \((.*?)\)",
    "docs/guides/ci.md": r"hugealign@v(\S+)$|^  rev: v(\S+)$",
    "docs/guides/build-systems.md": r"hugealign-([0-9][0-9.]*[0-9])",
}


@pytest.mark.parametrize("place", PLACES)
def test_version(place: str) -> None:
    result = re.findall(PLACES[place], (ROOT / place).read_text(), re.MULTILINE)
    assert result
    assert {"".join(groups) for groups in result} == {__version__}


def test_releasing_names_each_place() -> None:
    text = (ROOT / "RELEASING.md").read_text()
    assert not [place for place in PLACES if place not in text]
