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
from hugealign.verification.verify import VerifyOptions, verify


def assert_huge_text(
    path: str | os.PathLike[str], *, page_size: int = OWN, windows: int = 0, strict: bool = False
) -> None:
    """Assert that `hugealign verify` finds a file ok and that its text has enough windows.

    Args:
        path: A program, a library, or an archive, in which every program and library must be ok.
        page_size: The size of a huge page in bytes; by default that of the file's processor.
        windows: The least number of whole windows.  Without it small text passes, because there is nothing to check.
        strict: Whether warnings also fail.

    Raises:
        AssertionError: The file is not ok, or has too few windows; the message is the report.
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    selection = Selection(fail_on="warning" if strict else "error")
    outcome = verify(path, VerifyOptions(Policy(page_size), selection))
    if any(file.verdict != OK for file in outcome.files):
        raise AssertionError(f"text is not on huge pages\n{render_text(outcome, Style())}")
    coverage = outcome.coverage()
    if coverage.windows < windows:
        raise AssertionError(
            f"{counted(coverage.windows, 'window')}, not {windows}: "
            f"{percent(coverage)} of {format_size(coverage.text)} of text\n{render_text(outcome, Style())}"
        )
