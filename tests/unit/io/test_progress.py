"""A line of progress: on a terminal, after a second, and gone before anything else is said."""

import contextlib
import io
import time
from collections.abc import Iterator

from hugealign.io import progress
from hugealign.io.progress import Progress


class Terminal(io.StringIO):
    """What a person sees."""

    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def terminal() -> Iterator[Terminal]:
    with contextlib.redirect_stderr(Terminal()) as stream:
        yield stream


def test_nothing_is_said_of_what_is_soon_done() -> None:
    with terminal() as seen, Progress("x", 0.05) as shown:
        shown.phase("reading")
        assert list(shown.over(["a", "b"])) == ["a", "b"]
    time.sleep(0.1)
    assert seen.getvalue() == ""


def test_a_phase_shows_though_nothing_more_is_said() -> None:
    with terminal() as seen, Progress("x", 0.05) as shown:
        shown.phase("reading a")
        shown.phase("reading b")
        time.sleep(0.15)
        assert seen.getvalue() == "\rx: reading b"
        progress.clear()
        assert seen.getvalue().endswith("\r            \r")
    assert seen.getvalue().count("\r") == 3  # cleared once


def test_what_takes_long_is_said_at_once() -> None:
    with terminal() as seen, Progress("x", 0.05) as shown:
        shown.at_once("sampling")
        assert seen.getvalue() == "\rx: sampling"


def test_files_are_counted() -> None:
    with terminal() as seen, Progress("x", 0.05) as shown:
        for _ in shown.over(["a", "b", "c"]):
            time.sleep(0.15)
    assert "x: 1 of 3 files" in seen.getvalue()
    assert "x: 2 of 3 files" in seen.getvalue()
    assert seen.getvalue().endswith(" \r")


def test_where_there_is_no_terminal_nothing_is_said() -> None:
    with contextlib.redirect_stderr(io.StringIO()) as stream, Progress("x", 0.05) as shown:
        shown.phase("a")
        time.sleep(0.15)
        shown.say("b")
    assert stream.getvalue() == ""
