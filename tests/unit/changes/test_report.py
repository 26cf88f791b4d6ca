"""What `hugealign status` prints: names as they are in JSON, safe on a terminal, and what a person has to do."""

from itertools import zip_longest

import pytest

from hugealign.changes.changes import KINDS, Change, Undone
from hugealign.changes.report import Report, ReportedChange, lines, undone_lines
from hugealign.diagnosis import catalogue, documents
from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import ROOT, Diagnosis, Remedy
from hugealign.errors import HugealignError
from tests.documents import check
from tests.support import worded

_UNDO = (
    ("hugealign", "fix", "--undo", "/a\n b"),
    ("hugealign", "disable", "x\\y.service"),
    ("rm", "-r", "--", "/\udcff"),
)
FIXED = Change(Diagnosis("change.fixed", "/a\n\x1b[1m b", {"level": "shift"}, Remedy("undo", _UNDO[0])))
_RUNTIME: dict[str, int | str] = {"runtime": "h\n", "specification": "/s"}
RUNTIME = Change(Diagnosis("change.runtime", "/config", _RUNTIME, Remedy("remove-runtime")))
SERVICE = Change(Diagnosis("change.service", "x\\y.service", {}, Remedy("undo", _UNDO[1], ROOT)))
ODD = Change(Diagnosis("change.cache", "/\udcff", {"files": 1, "size": 2048}, Remedy("undo", _UNDO[2])), 86400)


def test_each_code_of_a_change_is_one_that_is_looked_for() -> None:
    assert sorted(KINDS) == [code for code in catalogue.codes() if catalogue.area(code) == "change"]


def test_names_do_not_reach_the_terminal() -> None:
    text = "\n".join(lines([FIXED, RUNTIME, ODD]))
    assert text.count("\n") == 5
    assert "\x1b[1m" not in text
    assert "h\\n" in text
    assert f"{worded('change.cache', files=1, size=2048)}, 1970-01-0" in text


@pytest.mark.parametrize(
    ("done", "shown"),
    [
        (Undone(SERVICE), [f"x\\y.service: {worded('change.service')}: undone", "systemctl restart 'x\\y.service'"]),
        (Undone(SERVICE, HugealignError("no")), []),
        (Undone(RUNTIME), [worded("change.runtime", runtime="h\n"), "  left: "]),
    ],
)
def test_what_became_of_a_change(done: Undone, shown: list[str]) -> None:
    result = undone_lines(done)
    assert len(result) == len(shown)
    assert all(part in line for part, line in zip(shown, result, strict=True))


def test_document() -> None:
    changes = [FIXED, RUNTIME, SERVICE, ODD]
    failures = [None, None, RefusalError("service.foreign-file", file="/f"), HugealignError("no\n")]
    undone = [Undone(change, failure) for change, failure in zip(changes, failures, strict=True)]
    for became in ((), undone):
        reported = [ReportedChange(*pair) for pair in zip_longest(changes, became)]
        result = check(documents.text(Report(reported, documents.failed([("/x", HugealignError("no"))]))))
        argv = [change["diagnosis"]["remedy"]["argv"] for change in result["changes"]]
        assert argv == [list(_UNDO[0]), [], list(_UNDO[1]), []]
        states = [change["undone"] for change in result["changes"]]
        assert states == ([True, False, False, False] if became else [None] * 4)
