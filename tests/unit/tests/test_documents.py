"""The documents: what they link to is there."""

import re
from pathlib import Path

import pytest

from tests.support import ROOT

_FOLDERS = ("changes.d", "docs", "examples", "ld-scripts", "lld-plugin", "tests")
_DOCUMENTS = [*ROOT.glob("*.md"), *(path for folder in _FOLDERS for path in (ROOT / folder).rglob("*.md"))]
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("document", _DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", _CODE.sub("", document.read_text())):
        if target.startswith(("https:", "http:")):
            continue
        path, _, anchor = target.partition("#")
        other = (document.parent / path).resolve() if path else document
        assert other.exists(), target
        assert not anchor or other.suffix != ".md" or anchor in anchors(other), target


def test_the_readme_has_a_thousand_words_at_most() -> None:
    assert len(re.sub(r"<!--.*?-->", "", (ROOT / "README.md").read_text()).split()) <= 1000
