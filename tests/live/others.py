"""Write docs/measured/with-others.md from a run of tests/live/test_with_others.py.

python -m tests.live.others docs/measured/with-others.md
"""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

from tests.live.programs import ROOT
from tests.support import made_here, page_to_write

_HEAD = """\
# With other tools

`uftrace record -P` breaks a program that hugealign linked; with all other tools the program runs as before.

| with | text on huge pages | and |
|---|---|---|
"""
_HOW = """
## How it was made

Written by `python -m tests.live.others docs/measured/with-others.md` from a run of `tests/live/test_with_others.py`
({made}). The program is linked by `hugealign gcc`, has three windows of text and is warm. Each row is a test of
what it says: that the program gives the same result as without the tool, and what `hugealign ps` shows of it.
"""


def table(junit: Path) -> str:
    """Return the rows of the table, and the reasons of tests that were skipped; ValueError if a test failed."""
    rows, skipped = [], []
    for case in ET.parse(junit).getroot().iter("testcase"):  # noqa: S314
        if case.find("failure") is not None or case.find("error") is not None:
            raise ValueError(f"failed: {case.attrib['name']}")
        result = {entry.attrib["name"]: entry.attrib["value"] for entry in case.iter("property")}
        reason = case.find("skipped")
        if reason is not None:
            skipped.append(f"- `{case.attrib['name'].removeprefix('test_')}`: {reason.attrib['message']}")
        elif result:
            rows.append(f"| {result['with']} | {result['huge']} | {result['and']} |")
    return "\n".join(
        [*rows, _HOW.format(made=made_here()), *(["Not tried here:", "", *skipped, ""] if skipped else [])]
    )


def main() -> None:
    """Run the tests and write the document that the first argument names."""
    target = page_to_write(__doc__)
    with tempfile.TemporaryDirectory() as name:
        junit = Path(name) / "junit.xml"
        words = ["-q", "-m", "matrix or not matrix", f"--junitxml={junit}", "-o", "junit_family=xunit1"]
        command = [sys.executable, "-m", "pytest", *words, "tests/live/test_with_others.py"]
        subprocess.run(command, cwd=ROOT, check=True)
        target.write_text(_HEAD + table(junit), encoding="utf-8")


if __name__ == "__main__":
    main()
