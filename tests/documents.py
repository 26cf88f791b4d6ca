"""Whether JSON reports are as their schemas say: those of this version, and those of 1.0."""

import json
import re
from functools import cache
from typing import Any

import jsonschema

from tests.support import ROOT

#: What 1.0.0 had and printed.
FIRST = ROOT / "tests" / "documents-1.0"
_NEW = r',\s*"(?:additional|unevaluated)Properties": false'


def check(text: str) -> Any:
    """Return the document *text*.  It must satisfy its schema, and that of 1.0 but for properties that are new."""
    document = json.loads(text)
    name = f"{document['schema'].removeprefix('hugealign.').replace('/', '-')}.schema.json"
    jsonschema.validate(document, _schema(name), cls=jsonschema.Draft202012Validator)
    if (FIRST / "schemas" / name).exists():
        jsonschema.validate(document, _first(name), cls=jsonschema.Draft202012Validator)
    return document


@cache
def _schema(name: str) -> Any:
    (path,) = (ROOT / "hugealign").rglob(name)
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def _first(name: str) -> Any:
    text = (FIRST / "schemas" / name).read_text(encoding="utf-8")
    schema = json.loads(re.sub(_NEW, "", text).replace("verify-1.schema.json#", "#"))
    if name.startswith("compare"):  # it has what it refers to in the other document
        schema["$defs"] |= {k: v for k, v in _first("verify-1.schema.json")["$defs"].items() if k != "file"}
        schema["$defs"]["file"] = {"anyOf": [{"type": "null"}, _first("verify-1.schema.json")["$defs"]["file"]]}
    return schema
