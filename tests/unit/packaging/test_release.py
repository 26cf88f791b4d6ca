"""What a release says of itself in more than one place: its version, and what it is made of."""

import re
import tomllib

import pytest

from hugealign.version import __version__
from tests.support import ROOT

PLACES = {
    "MODULE.bazel": r'version = "([^"]*)"',
    "lab/pyproject.toml": r'"hugealign==([^"]*)"',
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


def test_libraries_are_those_that_the_security_page_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = [name.partition(">")[0] for names in project["optional-dependencies"].values() for name in names]
    table = re.findall(r"^\| (\w+) \| [^|]+ \| `", (ROOT / "SECURITY.md").read_text(), re.MULTILINE)
    assert project["dependencies"] == []
    assert sorted(map(str.lower, table)) == sorted(optional)
