"""The samples in the documents are what the commands print now."""

import re
from pathlib import Path

import pytest

from tests import samples
from tests.support import HUGEALIGN, ROOT, run


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("samples")
    samples.prepare(directory)
    return directory


@pytest.mark.parametrize(
    "document", ["docs/reference/verify.md", "docs/reference/commands.md", "docs/tutorials/first-steps.md", "README.md"]
)
def test_samples(document: str, scratch: Path) -> None:
    changes = samples.difference(ROOT / document, scratch)
    assert changes == "", f"{changes}\nto renew them: make docs"


def test_manual_has_samples_and_names_every_option() -> None:
    manual = (ROOT / "docs" / "reference" / "verify.md").read_text()
    assert manual.count("```console\n") >= 8
    options = set(re.findall(r"^  (?:-\w(?: [A-Z]+)?, )?(--[a-z-]+)", help_text(), re.MULTILINE))
    assert len(options) > 15
    assert [option for option in sorted(options - {"--help"}) if option not in manual] == []


def help_text() -> str:
    return run(HUGEALIGN, "verify", "--help", check=True).stdout
