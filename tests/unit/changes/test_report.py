"""What `hugealign status` prints: names as they are in JSON, safe on a terminal, and what a person has to do."""

import json
from pathlib import Path

import pytest

from hugealign.changes import report
from hugealign.changes.changes import KINDS, Change, Undone
from hugealign.changes.report import document, lines, undone_lines
from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import ROOT, Remedy
from hugealign.errors import HugealignError

SCHEMA = json.loads(Path(report.__file__).with_name("status-1.schema.json").read_text(encoding="utf-8"))
FIXED = Change("fixed", "/a\n\x1b[1m b", {"level": "shift"}, Remedy("undo", ("hugealign", "fix", "--undo", "/a\n b")))
RUNTIME = Change("runtime", "/config", {"runtime": "h\n", "specification": "/s"}, Remedy("remove-runtime"))
SERVICE = Change("service", "x\\y.service", {}, Remedy("undo", ("hugealign", "disable", "x\\y.service"), ROOT))
ODD = Change("cache", "/\udcff", {"files": 1, "size": 2048}, Remedy("undo", ("rm", "-r", "--", "/\udcff")), 86400)


def test_each_kind_is_worded_and_in_the_schema() -> None:
    assert list(KINDS) == SCHEMA["properties"]["changes"]["items"]["properties"]["kind"]["enum"]
    for kind in KINDS:
        facts = {"unseen": "server", "runtime": "r"}
        assert lines([Change(kind, "/a", facts, Remedy("undo", ("x",)))])[0].endswith("it was not looked at: server")


def test_names_do_not_reach_the_terminal() -> None:
    text = "\n".join(lines([FIXED, RUNTIME, ODD]))
    assert text.count("\n") == 5
    assert "\x1b[1m" not in text
    assert "h\\n" in text
    assert "a cache; files: 1, 2.0 KiB, 1970-01-0" in text


@pytest.mark.parametrize(
    ("done", "shown"),
    [
        (Undone(SERVICE), ["x\\y.service: a service that runs from huge text: undone", "now"]),
        (Undone(SERVICE, HugealignError("no")), []),
        (Undone(RUNTIME), ["containerd's runtime", "left: remove the runtime h\\n"]),
    ],
)
def test_what_became_of_a_change(done: Undone, shown: list[str]) -> None:
    found = undone_lines(done)
    assert len(found) == len(shown)
    assert all(part in line for part, line in zip(shown, found, strict=True))


def test_document() -> None:
    changes = [FIXED, RUNTIME, SERVICE, ODD]
    failures = [None, None, RefusalError("service.foreign-file", file="/f"), HugealignError("no\n")]
    undone = [Undone(change, failure) for change, failure in zip(changes, failures, strict=True)]
    for became in (None, undone):
        found = json.loads(json.dumps(document(changes, became, [("/x", HugealignError("no"))])))
        assert [change["undo"]["argv"] for change in found["changes"]] == [
            ["hugealign", "fix", "--undo", "/a\n b"],
            [],
            ["hugealign", "disable", "x\\y.service"],
            [],
        ]
        states = [change["undone"] for change in found["changes"]]
        assert states == ([True, False, False, False] if became else [None] * 4)
