"""What sh has of Python's tables is what Python has; a script without its marks is noticed."""

from pathlib import Path

import pytest

from hugealign.sh import tables

SH = Path(tables.__file__).parent


@pytest.mark.parametrize("script", tables.regions())
def test_no_region_is_stale(script: str) -> None:
    text = (SH / script).read_text()
    assert tables.rewritten(text, tables.regions()[script]) == text, "run: make tables"


def test_a_changed_table_is_seen() -> None:
    text = (SH / "shim.sh").read_text()
    found = tables.regions()["shim.sh"] | {"settings": "limit=1 early=2"}
    assert "limit=1 early=2\n" in tables.rewritten(text, found)
    with pytest.raises(ValueError, match="usual"):
        tables.rewritten(text.replace("# >>> usual", ""), tables.regions()["shim.sh"])
