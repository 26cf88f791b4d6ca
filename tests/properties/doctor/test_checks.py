"""`hugealign doctor` without a machine: facts in, findings out."""

import json

import jsonschema

from hugealign.doctor import report
from tests.support import ROOT
from tests.unit.doctor.test_checks import NO_FOLIOS, findings

SCHEMA = json.loads((ROOT / "hugealign" / "doctor" / "doctor-1.schema.json").read_text())


def test_json_follows_its_schema() -> None:
    found = [*findings(places=(NO_FOLIOS,), config=None, variables={"HUGEALIGN_X": ""}).values()]
    document = json.loads(report.to_json(found))
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(document, SCHEMA)
    assert document["summary"]["obstacle"] == 2
    assert sum(document["summary"].values()) == len(document["findings"])
