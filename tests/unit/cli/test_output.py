"""Colours of reports and messages: on a terminal, unless disabled, and in what people look for."""

import contextlib
import io
from collections.abc import Iterator

import pytest

from hugealign.cli import messages, output
from hugealign.diagnosis import render
from hugealign.io import progress
from tests.unit.io.test_progress import Terminal


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@contextlib.contextmanager
def terminal() -> Iterator[Terminal]:
    stream = Terminal()
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        yield stream


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"CLICOLOR": "0"}, False),
        ({"CLICOLOR": "1"}, True),
        ({"CLICOLOR": "0", "CLICOLOR_FORCE": "1"}, True),
        ({"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_who_decides(variables: dict[str, str], wanted: bool) -> None:
    assert output.colour_wanted(Terminal(), {"TERM": "xterm", **variables}) == wanted
    assert not output.colour_wanted(None, {"TERM": "xterm"})
    assert not output.colour_wanted(io.StringIO(), {"TERM": "xterm"})


def test_a_report_has_its_colours_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"app[7]: {render.painted('all 5 windows are huge', 'ok')}"
    with terminal():
        assert output.painted(line) == line
        monkeypatch.setenv("NO_COLOR", "1")
        assert output.painted(line) == "app[7]: all 5 windows are huge"


def test_without_colours_a_report_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with terminal() as seen:
        output.show(["✓ kernel", "all 5 windows are huge"])
        messages.error("x")
    assert seen.getvalue() == "✓ kernel\nall 5 windows are huge\nhugealign: error: x\n"


def test_messages_take_the_line_of_progress_away() -> None:
    with terminal() as seen, progress.Progress("order", 0.0) as shown:
        shown.say("1")
        messages.warning("odd")
    assert seen.getvalue() == "\rorder: 1\r        \rhugealign: \x1b[1;33mwarning:\x1b[0m odd\n"
