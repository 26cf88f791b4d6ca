"""Which findings count, which are known, and what got worse: on reports made by hand."""

import json

import pytest

from hugealign.errors import UsageError
from hugealign.verification import baseline, compare
from hugealign.verification.result import FileReport, Verification
from hugealign.verification.selection import Selection
from tests.unit.verification.test_formats import M, outcome, rendered, report


def ids(file: FileReport) -> list[str]:
    return [diagnosis.code for diagnosis in file.diagnoses]


@pytest.mark.parametrize(
    ("select", "ignore", "left"),
    [
        (None, None, ["HA001", "HA003", "HA009"]),
        (["HA001"], None, ["HA001"]),
        (["ha001, HA009"], None, ["HA001", "HA009"]),
        (["HA001", "HA003"], ["HA003"], ["HA001"]),
        (None, ["HA001,HA003"], ["HA009"]),
        (None, ["HA001", "HA003", "HA009"], []),
    ],
)
def test_select_and_ignore(select: list[str] | None, ignore: list[str] | None, left: list[str]) -> None:
    assert ids(Selection(select, ignore).judge(report("x", "HA001", "HA003", "HA009"))) == left


@pytest.mark.parametrize("words", [["HA999"], ["HA001,x"], ["\x1b"]])
def test_unknown_rules(words: list[str]) -> None:
    for select, ignore in ((words, None), (None, words)):
        with pytest.raises(UsageError, match="hugealign explain") as caught:
            Selection(select, ignore)
        assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("words", [[""], [",", " "]])
def test_no_rule_is_no_selection(words: list[str]) -> None:
    with pytest.raises(UsageError, match="--select: no rule is named"):
        Selection(words)
    assert Selection(None, words).rules == Selection().rules


@pytest.mark.parametrize(
    ("rules", "fail_on", "verdict", "status"),
    [
        ((), "error", "ok", 0),
        (("HA009",), "error", "ok", 0),
        (("HA009",), "warning", "failed", 1),
        (("HA009",), "note", "failed", 1),
        (("HA001",), "error", "failed", 1),
        (("HA001",), "warning", "failed", 1),
        (("HA001",), "never", "failed", 0),
        (("HA009",), "never", "ok", 0),
    ],
)
def test_fail_on(rules: tuple[str, ...], fail_on: str, verdict: str, status: int) -> None:
    result = outcome(report("x", *rules), fail_on=fail_on)
    assert (result.files[0].verdict, result.status) == (verdict, status)


def test_what_could_not_be_checked_yields_to_findings() -> None:
    unknown = report("y", problem="unreadable")
    assert outcome(unknown).status == 3
    assert outcome(unknown, report("x")).status == 3
    assert outcome(unknown, report("x", "HA001")).status == 1
    assert outcome(unknown, report("x", "HA001"), fail_on="never").status == 3
    assert outcome().status == 3


def known(*reports: FileReport) -> baseline.Baseline:
    return baseline.parse(rendered("json", outcome(*reports)).encode(), "known.json")


def judge(accepted: baseline.Baseline, *reports: FileReport) -> list[FileReport]:
    return [Selection().judge(item, accepted) for item in reports]


def test_known_findings_are_accepted_and_new_ones_are_not() -> None:
    accepted = known(report("./a", "HA001", "HA003"))
    (file,) = judge(accepted, report("a", "HA001", "HA004"))
    assert ids(file) == ["HA004"]
    assert [accepted.diagnosis.code for accepted in file.accepted] == ["HA001"]
    assert file.verdict == "failed"
    assert accepted.fixed(["a"], Selection().rules) == [("a", "HA003", "R-E")]
    assert accepted.fixed(["a"], Selection(ignore=["HA003"]).rules) == []
    assert accepted.fixed(["b"], Selection().rules) == []


def test_each_known_finding_is_accepted_once() -> None:
    (file,) = judge(known(report("a", "HA005")), report("a", "HA005", "HA005"))
    assert (ids(file), len(file.accepted)) == (["HA005"], 1)


@pytest.mark.parametrize("other", [report("b", "HA001"), report("a", "HA003"), report("a", "HA001", flags=7)])
def test_another_path_rule_or_protection_is_new(other: FileReport) -> None:
    (file,) = judge(known(report("a", "HA001")), other)
    assert (file.verdict, file.accepted) == ("failed", ())


def test_a_report_under_a_baseline_is_a_baseline() -> None:
    first = known(report("a", "HA001"))
    second = rendered("json", Verification(tuple(judge(first, report("a", "HA001", "HA004")))))
    (file,) = judge(baseline.parse(second.encode(), "x"), report("a", "HA001", "HA004"))
    assert file.verdict == "ok"


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"null", b"3", b"\xff\xfe", b"[" * 100_000, b'{"schema": "hugealign.verify/1"}',
        b'{"schema": "hugealign.verify/2", "files": []}', b'{"schema": "hugealign.verify/1", "files": [3]}',
        b'{"schema": "hugealign.verify/1", "files": [{"path": "x", "diagnoses": [{"code": "HA001"}]}]}',
        b'{"schema": "hugealign.verify/1", "files": [{"path": "x", "diagnoses": 3}]}',
    ],
)  # fmt: skip
def test_what_is_no_baseline(data: bytes) -> None:
    with pytest.raises(UsageError, match=r"^--baseline: x\\n: not a report"):
        baseline.parse(data, "x\n")


def pair(new: FileReport | None, old: FileReport | None, fail_on: str = "error") -> compare.Pair:
    judged = [Selection(fail_on=fail_on).judge(side) if side else None for side in (new, old)]
    return compare.Pair(judged[0], judged[1], fail_on)


@pytest.mark.parametrize(
    ("new", "old", "verdict", "status"),
    [
        (report("n"), report("o"), "same", 0),
        (report("n", "HA001"), report("o", "HA001"), "same", 0),
        (report("n", "HA001"), report("o"), "worse", 1),
        (report("n", "HA001", "HA001"), report("o", "HA001"), "worse", 1),
        (report("n", "HA009"), report("o"), "same", 0),
        (report("n"), report("o", "HA001"), "better", 0),
        (report("n", huge=M), report("o", huge=2 * M), "worse", 1),
        (report("n", huge=2 * M), report("o", huge=M), "better", 0),
        (report("n", huge=3 * M - 4096), report("o", huge=3 * M), "same", 0),  # a tail that the policy forgives
        (report("n", huge=3 * M - 8192), report("o", huge=3 * M), "worse", 1),
        (report("n", size=100_000), report("o", huge=3 * M), "same", 0),  # small by now
        (report("n", problem="no"), report("o"), "unknown", 3),
        (report("n"), report("o", problem="no"), "unknown", 3),
        (report("n", "HA001"), None, "worse", 1),
        (report("n"), None, "same", 0),
        (None, report("o", "HA001"), "same", 0),
    ],
)
def test_before_and_after(new: FileReport | None, old: FileReport | None, verdict: str, status: int) -> None:
    compared = pair(new, old)
    assert (compared.verdict, compare.Comparison((compared,)).status) == (verdict, status)
    assert (compared.graver or compared.lower) == (verdict == "worse")
    assert compare.Comparison((compared,), "never").status in (0, 3)


def test_gained_warnings_count_when_asked() -> None:
    assert pair(report("n", "HA009"), report("o"), "warning").verdict == "worse"


def test_pairing() -> None:
    def side(*names: str) -> list[tuple[str, FileReport]]:
        return [(name, Selection().judge(report(name))) for name in names]

    def names(new: list[tuple[str, FileReport]], old: list[tuple[str, FileReport]]) -> list[tuple[str | None, ...]]:
        values = compare.pairs(new, old, "error")
        return [tuple(side.path if side else None for side in (p.new, p.old)) for p in values]

    assert names(side("x"), side("y")) == [("x", "y")]
    assert names(side("a", "b"), side("b", "c")) == [("a", None), ("b", "b"), (None, "c")]
    assert compare.Comparison(()).status == 3


def test_json_of_a_baseline_run_names_what_is_fixed() -> None:
    document = json.loads(rendered("json", Verification((), fixed=(("a", "HA001", "R-E"),))))
    assert document["fixed"] == [{"path": "a", "code": "HA001", "flags": "R-E"}]
