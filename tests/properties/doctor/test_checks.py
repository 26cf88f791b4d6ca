"""`hugealign doctor` without a machine: facts in, findings out."""

import json

import jsonschema

from hugealign.doctor import report
from tests.support import ROOT
from tests.unit.doctor.test_checks import NO_FOLIOS, REFUSED, result

SCHEMA = json.loads((ROOT / "hugealign" / "doctor" / "doctor-1.schema.json").read_text())


def test_json_follows_its_schema() -> None:
    every = result(places=(NO_FOLIOS,), no_mounts=REFUSED, variables={"HUGEALIGN_X": ""})
    document = json.loads(report.to_json([*every.values()]))
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(document, SCHEMA)
    assert document["summary"]["obstacle"] == 2
    assert sum(document["summary"].values()) == len(document["checks"])
