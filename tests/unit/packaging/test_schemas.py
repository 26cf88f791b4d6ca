"""The schemas of the JSON reports are those of the records."""

import sys

from tests.support import ROOT, run


def test_no_schema_is_stale() -> None:
    done = run(sys.executable, ROOT / "packaging" / "schemas.py", "--check")
    assert (done.returncode, done.stderr) == (0, "")
