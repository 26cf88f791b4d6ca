"""The table of links, docs/links.md."""

import sys
from pathlib import Path

import pytest

from tests import table
from tests.support import ROOT
from tests.table import FILES

_RUN = """\
<testsuites><testsuite>
<testcase classname="tests.link.test_newer" name="test_program[pie-gcc-wild-cargo]"/>
<testcase classname="tests.link.test_newer" name="test_program[static-gcc-wild-cargo]">
<skipped message="it cannot"/></testcase>
</testsuite></testsuites>
"""
_BEFORE = """\
# Links that are tested

## Outputs of every kind, x86-64

| situation | bfd | gold |
|---|---|---|
| all is ok: `pie` | 12 ok | ok [1] |

- [1] gold cannot

## wild, x86-64

an older run
"""


def test_every_file_of_link_tests_has_a_heading() -> None:
    """Else ``make docs`` fails at its end, after minutes."""
    files = {name.partition(":")[0] for name in FILES}
    assert files == {path.stem for path in (ROOT / "tests" / "link").glob("test_*.py")}


def test_a_run_renews_its_own_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document, run = tmp_path / "links.md", tmp_path / "run.xml"
    document.write_text(_BEFORE)
    run.write_text(_RUN)
    monkeypatch.setattr(sys, "argv", ["table", str(document), str(run)])
    for _ in range(2):  # the second time, nothing is another
        table.main()
        text = document.read_text()
        head, first, second = text.split("## ")
        assert "\n14 cases passed." in head
        assert f"## {first}".rstrip() == _BEFORE.partition("\n\n")[2].partition("\n\n## wild")[0]
        assert second.startswith("wild, x86-64\n\n")
        assert second.endswith("| program: `pie` | ok |\n| program: `static` | [1] |\n\n- [1] it cannot\n")
