"""The document that `warm --json` prints, and its schema."""

import jsonschema
import pytest

from hugealign.pagecache.report import document
from tests.unit.pagecache.test_report import SCHEMA, documented, with_rodata


def test_document_follows_the_schema() -> None:
    found = documented()
    jsonschema.validate(found, SCHEMA)
    jsonschema.validate(document([with_rodata()], set(), [], []), SCHEMA)
    found["files"][0]["methods"] = ["magic"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found, SCHEMA)
