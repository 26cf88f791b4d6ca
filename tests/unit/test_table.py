"""docs/measured/links.md has a table for each file of the link tests."""

from pathlib import Path

from tests import table


def test_each_file_of_link_tests_has_a_heading() -> None:
    files = {path.stem for path in Path(table.__file__).with_name("link").glob("test_*.py")}
    assert files == {name for name in table.FILES if ":" not in name}
