"""What sh has of Python's tables is what Python has; a script without its marks is noticed."""

import importlib
import sys

import pytest

from tests.support import ROOT, run

SH = ROOT / "hugealign" / "sh"


def test_no_region_is_stale() -> None:
    done = run(sys.executable, ROOT / "packaging" / "tables.py", "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_changed_table_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "packaging")
    tables = importlib.import_module("tables")
    text = (SH / "shim.sh").read_text()
    result = tables.regions()["shim.sh"] | {"settings": "limit=1 early=2"}
    assert "limit=1 early=2\n" in tables.rewritten(text, result)
    with pytest.raises(ValueError, match="usual"):
        tables.rewritten(text.replace("# >>> usual", ""), tables.regions()["shim.sh"])
