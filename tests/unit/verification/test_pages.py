"""The pages of `hugealign explain`: one per rule, of 80 columns, with commands that exist."""

import re
from pathlib import Path

import pytest

from hugealign.verification import pages
from hugealign.verification.rules import RULES
from tests.support import ROOT

EXPLAIN = ROOT / "hugealign" / "verification" / "explain"


def test_a_page_for_each_rule_and_no_other() -> None:
    assert sorted(path.name for path in EXPLAIN.iterdir()) == [f"{rule}.txt" for rule in sorted(RULES)]


@pytest.mark.parametrize("rule", RULES)
def test_page(rule: str) -> None:
    text = pages.page(rule)
    assert text.startswith(f"{rule} ({RULES[rule].severity}): {RULES[rule].title}")
    assert max(map(len, text.splitlines())) <= 80
    assert text.isascii()
    for part in ("What. ", "Why. ", "How it comes about. ", "Fix. ", "See. "):
        assert text.count(f"\n{part}") == 1, part
    assert "\n    " in text.partition("\nFix. ")[2]
    assert "\n    " in text.partition("\nSee. ")[2]
    assert "".join(text.split()).endswith("".join(f"Rests on: {RULES[rule].condition}.".split()))


@pytest.mark.parametrize("rule", RULES)
def test_a_condition_names_where_it_comes_from(rule: str) -> None:
    source = r"\.[ch]\b|commit [0-9a-f]{12}|glibc|musl|System V ABI|SDM|processor|notes\.py|objcopy"
    assert re.search(source, RULES[rule].condition)


def test_the_document_is_up_to_date() -> None:
    assert Path(ROOT / "docs" / "rules.md").read_text(encoding="utf-8") == pages.markdown(), "run: make docs"
