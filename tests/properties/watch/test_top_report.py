"""The table, the JSON document and the metrics of `hugealign top`."""

import json
from pathlib import Path

import jsonschema

from hugealign.io.units import printable
from hugealign.watch import top_report as report
from tests.unit.watch.test_top_report import HOSTILE, MACHINE, hostile

SCHEMA = json.loads(Path(report.__file__).with_name("top-1.schema.json").read_text(encoding="utf-8"))


def test_document_follows_the_schema() -> None:
    for machine in (MACHINE, hostile()):
        result = json.loads(report.to_json(machine))
        jsonschema.validate(result, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert result["rows"][0]["program"] == printable(HOSTILE)
