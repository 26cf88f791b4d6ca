"""Colours of reports and messages: on a terminal, if nobody objects, and in what people look for."""

import contextlib
import io
from collections.abc import Iterator

import pytest

from hugealign.cli import messages, output
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


@pytest.mark.parametrize(
    ("line", "marked", "colour"),
    [
        ("✓ kernel  Linux", "✓", "32"),
        ("✗ place   /srv: nothing", "✗", "1;31"),
        ("mariadbd[7]: all 5 windows are huge", "all 5 windows are huge", "32"),
        ("mariadbd[7]: no window can be huge", "no window can be huge", "1;31"),
        ("a.so: 0 of 3 windows huge (0 B)", "0 of 3 windows huge", "33"),
        ("  0x7f4875800000  15.2%  HotSpot code: small -> huge", "-> huge", "32"),
        ("  small; run: hugealign fix --in-place x (0 -> 2 windows)", "hugealign fix --in-place x", "36"),
        ("  run: hugealign adapt 7, or start it with -XX", "hugealign adapt 7", "36"),
        ("  hugealign enable --fix a && systemctl restart a", "hugealign enable --fix a && systemctl restart a", "36"),
    ],
)
def test_what_people_look_for(line: str, marked: str, colour: str) -> None:
    shown = line.replace(marked, f"\x1b[{colour}m{marked}\x1b[0m")
    with terminal():
        assert output.painted(f"x\n{line}\nx") == f"x\n{shown}\nx"


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
