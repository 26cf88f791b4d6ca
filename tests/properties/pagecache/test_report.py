"""The document that `warm --json` prints, and its schema."""

import jsonschema
import pytest

from tests.unit.pagecache.test_report import SCHEMA, documented


def test_document_follows_the_schema() -> None:
    result = documented()
    jsonschema.validate(result, SCHEMA)
    result["files"][0]["methods"] = ["magic"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(result, SCHEMA)
