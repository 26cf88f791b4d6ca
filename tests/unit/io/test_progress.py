"""A line of progress: on a terminal, after a while, and gone before anything else is said."""

import contextlib
import io
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from hugealign.io import progress
from hugealign.io.progress import Progress


class Terminal(io.StringIO):
    """What a person sees."""

    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that stands still until it is put forward; it also plays `threading.Timer`."""

    def __init__(self) -> None:
        self.now, self.due = 0.0, float("inf")
        self.call: Callable[[], object] = object
        self.daemon = False

    def timer(self, seconds: float, call: Callable[[], object]) -> "Clock":
        self.due, self.call = self.now + seconds, call
        return self

    def start(self) -> None:
        """Begin to wait."""

    def cancel(self) -> None:
        self.due = float("inf")

    def join(self) -> None:
        """Wait for the end of the call."""

    def forward(self, seconds: float) -> None:
        self.now += seconds
        if self.now >= self.due:
            self.cancel()
            self.call()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    result = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: result.now)
    monkeypatch.setattr(threading, "Timer", result.timer)
    return result


@contextlib.contextmanager
def terminal() -> Iterator[Terminal]:
    with contextlib.redirect_stderr(Terminal()) as stream:
        yield stream


def test_nothing_is_said_of_what_is_soon_done(clock: Clock) -> None:
    with terminal() as seen, Progress("x", 2) as shown:
        shown.phase("reading")
        assert list(shown.over(["a", "b"])) == ["a", "b"]
        clock.forward(1.9)
    clock.forward(9)
    assert seen.getvalue() == ""


def test_a_phase_shows_though_nothing_more_is_said(clock: Clock) -> None:
    with terminal() as seen, Progress("x", 2) as shown:
        shown.phase("reading a")
        shown.phase("reading b")
        clock.forward(2)
        assert seen.getvalue() == "\rx: reading b"
        progress.clear()
        assert seen.getvalue().endswith("\r            \r")
    assert seen.getvalue().count("\r") == 3  # cleared once


def test_what_takes_long_is_said_at_once(clock: Clock) -> None:
    with terminal() as seen, Progress("x", 2) as shown:
        shown.at_once("sampling")
        assert (seen.getvalue(), clock.now) == ("\rx: sampling", 0)


def test_files_are_counted(clock: Clock) -> None:
    with terminal() as seen, Progress("x", 2) as shown:
        for _ in shown.over(["a", "b", "c"]):
            clock.forward(2)
    assert seen.getvalue().split("\r") == ["", "x: 1 of 3 files", "x: 2 of 3 files", " " * 15, ""]


def test_where_there_is_no_terminal_nothing_is_said(clock: Clock) -> None:
    with contextlib.redirect_stderr(io.StringIO()) as stream, Progress("x", 2) as shown:
        shown.phase("a")
        clock.forward(3)
        shown.say("b")
    assert stream.getvalue() == ""
