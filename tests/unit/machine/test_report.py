"""What `enable --all` prints, as a table and as JSON, and what `status` and the metrics have of it."""

import json
from dataclasses import replace

import jsonschema

from hugealign.changes import report as changes
from hugealign.changes.changes import Change
from hugealign.diagnosis import catalogue, documents
from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.io.regular import FileError
from hugealign.machine import report
from hugealign.machine.machine import MachineNow, Outcome
from hugealign.machine.plan import CONTAINER_STARTS, COPIES, HOOK, MachinePlan
from hugealign.machine.state import Held, State
from tests.documents import check
from tests.support import ROOT, worded
from tests.unit.machine.test_plan import MIB, part

HOSTILE = "/opt/\x1b[31m\n::error::x"
OUTCOME = Outcome(
    State(100, (Held(part("old"), 100, 200),), 300, "", {"policy.no-room": 14}),
    MachinePlan(
        (part(HOSTILE, 8, how=COPIES),),
        tuple(Diagnosis("policy.no-room", f"/left/{n}", {"size": MIB, "room": 0}) for n in range(14)),
    ),
    (part("gone"),),
    (Diagnosis("service.unknown", "b.service", {}),),
)


def _schema(path: str) -> dict[str, object]:
    result: dict[str, object] = json.loads((ROOT / "hugealign" / path).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(result)
    return result


def test_the_table_begins_with_the_sum_and_ends_with_what_is_left() -> None:
    lines = report.lines(OUTCOME, 100 * MIB)
    assert lines[0].startswith("2 parts, 10.0 MiB of at most 100.0 MiB; 10.00 % of one processor saved")
    assert [line.split()[0] for line in lines[1:4]] == ["WHAT", "old", "/opt/\\x1b[31m\\n::error::x"]
    assert lines[2].endswith("in force")
    assert "gone: dropped" in lines
    assert f"b.service: {worded('service.unknown')}" in " ".join(lines)
    assert lines[-1] == "  and 2 more (-v)"
    every = report.lines(OUTCOME, 100 * MIB, every=True)
    assert [line for line in every if line.startswith("  /left/")][-1].startswith("  /left/13: ")
    assert not any("\x1b[31m" in line for line in every)


def test_of_a_layer_only_the_beginning_is_shown() -> None:
    name = f"/var/lib/containers/storage/overlay/{'0123456789abcdef' * 4}/diff/usr/bin/node"
    short = "/var/lib/containers/storage/overlay/0123456789ab/diff/usr/bin/node"
    one = replace(part(name, how=HOOK), when=CONTAINER_STARTS)
    plan = MachinePlan((one,), (Diagnosis("policy.no-window", name, {}),))
    outcome = Outcome(State(100), plan, (one,))
    _, _, row, dropped, _, _, left = report.lines(outcome, 100 * MIB)
    assert row.startswith(f"{short}  hook ")
    assert row.endswith("when the container starts")
    assert dropped == f"{short}: dropped"
    assert left.startswith(f"  {short}: ")
    (line, _) = report.status_lines(MachineNow(State(100, (Held(one, 100, 200),), 300), {}))
    assert line.startswith(f"  {short}: hook, 1 window, 2.0 MiB, ")
    document = json.loads(documents.text(report.Report(100, outcome)))
    jsonschema.validate(document, _schema("machine/machine-plan-1.schema.json"))
    assert (document["take"][0]["name"], document["take"][0]["how"]) == (name, "hook")


def test_the_document_is_what_its_schema_says() -> None:
    schema = _schema("machine/machine-plan-1.schema.json")
    for text in (
        documents.text(report.Report(100, OUTCOME)),
        documents.text(report.Report(0, None, documents.failed([("--all", FileError("gone"))]))),
    ):
        jsonschema.validate(json.loads(text), schema, cls=jsonschema.Draft202012Validator)
    document = json.loads(documents.text(report.Report(100, OUTCOME)))
    assert (document["held"][0]["name"], document["held"][0]["used"], document["dropped"]) == ("old", 200, ["gone"])


def test_status_has_the_parts_and_how_the_last_look_ended() -> None:
    failed = State(100, OUTCOME.state.held, 300, "policy.not-toml")
    other = State(100, OUTCOME.state.held, 300, "../\x1b")
    title = catalogue.row("policy.not-toml").title
    for state, ending in (
        (OUTCOME.state, ", well"),
        (failed, f", failed: {title} [policy.not-toml]"),
        (other, ", failed: ../\\x1b"),
    ):
        lines = report.status_lines(MachineNow(state, {"old": 0}))
        assert lines[0].startswith(
            "  old: in place, 0 of 1 window huge, 2.0 MiB, saves 10.0 % (5.0 to 20.0) by the model, since "
        )
        assert lines[-1].startswith("  last look: 1970-01-01 ")
        assert lines[-1].endswith(ending)
    change = Change(
        Diagnosis("change.machine", "/x", {"parts": 1, "size": 2}, Remedy("undo", ("hugealign", "disable", "--all"))),
        machine=MachineNow(failed, {"old": 1}),
    )
    document = check(documents.text(changes.Report([changes.ReportedChange(change, None)], ())))
    assert document["changes"][0]["machine"]["failure"] == "policy.not-toml"
    assert document["changes"][0]["machine"]["held"][0]["windows_huge"] == 1
