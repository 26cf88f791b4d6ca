"""An assertion for the tests of other projects: a built program has its text in whole windows.

    from hugealign.testing import assert_huge_text

    def test_server_is_laid_out():
        assert_huge_text("build/server", windows=3)

It works with pytest, unittest or neither, and imports neither.
"""

import os

from hugealign.io.units import counted, format_size
from hugealign.settings import OWN
from hugealign.verification.formats.text import Style, percent, render_text
from hugealign.verification.result import OK
from hugealign.verification.rules import Policy
from hugealign.verification.selection import Selection
from hugealign.verification.verify import verify


def assert_huge_text(
    path: str | os.PathLike[str], *, page_size: int = OWN, windows: int = 0, strict: bool = False
) -> None:
    """Raise AssertionError unless `hugealign verify` finds the file at *path* ok and its text has enough windows.

    *page_size* is the size of a huge page in bytes, by default that of the file's processor.  *windows* is the
    minimum number of whole windows; without it, small text passes because there is nothing to check.  *strict*
    makes warnings fail as well.  In an archive, every program and library must be ok.
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    found = verify(path, Policy(page_size), Selection(fail_on="warning" if strict else "error"))
    if any(file.verdict != OK for file in found.files):
        raise AssertionError(f"text is not on huge pages\n{render_text(found, Style())}")
    coverage = found.coverage()
    if coverage.windows < windows:
        raise AssertionError(
            f"{counted(coverage.windows, 'window')}, not {windows}: "
            f"{percent(coverage)} of {format_size(coverage.text)} of text\n{render_text(found, Style())}"
        )
