"""The JSON form of a diagnosis is as its schema says, alone and within a document."""

import json

import jsonschema
import pytest

from hugealign.diagnosis import documents, render
from hugealign.diagnosis.values import ROOT, Diagnosis, Remedy
from hugealign.run import report
from hugealign.run.store import MADE, Staged
from tests.documents import check
from tests.support import HUGEALIGN, run
from tests.support import ROOT as CHECKOUT

REMEDY = Remedy("fix", ("hugealign", "fix", "--in-place", "f"), ROOT, 0, 2)
DIAGNOSES = [
    Diagnosis("cache.in-use", "f", {"process": 7, "name": "x"}, REMEDY),
    Diagnosis("thp.partial", "", {"huge": 1, "windows": 3}, Remedy("retry")),
    Diagnosis("file.core", "f", {}),
]


@pytest.mark.parametrize("one", DIAGNOSES, ids=lambda one: one.code)
def test_form(one: Diagnosis) -> None:
    schema = json.loads((CHECKOUT / "hugealign/diagnosis/diagnosis.schema.json").read_text(encoding="utf-8"))
    result = render.document(one)
    jsonschema.validate(result, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**(result or {}), "code": "what?"}, schema)


@pytest.mark.parametrize("one", [None, *DIAGNOSES], ids=str)
def test_within_a_document(one: Diagnosis | None) -> None:
    staged = Staged("/a", MADE, 3, 1, 6 << 20, diagnosis=one)
    check(documents.text(report.Report("/run/x", [staged], ())))


def test_units() -> None:
    """What `disable` says of a unit that was never enabled; `enable` has the same document."""
    schema = json.loads((CHECKOUT / "hugealign/services/enable-1.schema.json").read_text(encoding="utf-8"))
    done = run(HUGEALIGN, "disable", "--json", "no-such-unit")
    document = json.loads(done.stdout)
    jsonschema.validate(document, schema)
    (error,) = document["errors"]
    assert (done.returncode, done.stderr, document["units"]) == (1, "", [])
    assert (error["target"], error["diagnosis"]["code"]) == ("no-such-unit", "service.not-enabled")


def test_every_report_begins_alike() -> None:
    """With its schema and the tool that wrote it; and what failed has the same form in all of them."""
    schemas = {path.name: json.loads(path.read_text()) for path in (CHECKOUT / "hugealign").rglob("*-1.schema.json")}
    assert len(schemas) > 10
    frames = {name: (one["required"][:2], one["properties"]["tool"]) for name, one in schemas.items()}
    assert all(frame == frames["verify-1.schema.json"] for frame in frames.values()), frames
    failures = [one["properties"]["errors"]["items"] for one in schemas.values() if "errors" in one["properties"]]
    assert len(failures) > 5
    assert all("target" in json.dumps(one) or one == {"$ref": "#/$defs/Failed"} for one in failures)
