"""The table of links, docs/links.md."""

from tests.support import ROOT
from tests.table import FILES


def test_every_file_of_link_tests_has_a_heading() -> None:
    """Else ``make docs`` fails at its end, after minutes."""
    assert set(FILES) == {path.stem for path in (ROOT / "tests" / "link").glob("test_*.py")}
