"""The schemas of the JSON reports are those of the records, and also describe what 1.0 printed."""

import json
import sys

import jsonschema
import pytest

from tests.documents import FIRST, check
from tests.support import ROOT, run

PRINTED = {path.stem: path for path in (FIRST / "printed").iterdir()}


def test_no_schema_is_stale() -> None:
    done = run(sys.executable, ROOT / "packaging" / "schemas.py", "--check")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_what_1_0_printed(name: str) -> None:
    document = check(PRINTED[name].read_text(encoding="utf-8"))
    del document[list(document)[2]]
    with pytest.raises(jsonschema.ValidationError):
        check(json.dumps(document))


def test_there_is_a_document_of_each_schema() -> None:
    schemas = {path.name.removesuffix("-1.schema.json") for path in (FIRST / "schemas").iterdir()}
    assert schemas <= set(PRINTED)
