"""What `enable` and `disable` did, as JSON.  Pure."""

from collections.abc import Mapping, Sequence

from hugealign.diagnosis import documents
from hugealign.errors import HugealignError
from hugealign.io.units import printable

SCHEMA = "hugealign.enable/1"


def to_json(units: Mapping[str, Sequence[str]], errors: Sequence[tuple[str, HugealignError]]) -> str:
    """Return the JSON document that enable-1.schema.json beside this file describes: *units* with their files."""
    changed = [{"unit": printable(unit), "files": list(map(printable, files))} for unit, files in units.items()]
    return documents.to_json(SCHEMA, {"units": changed, "errors": documents.errors(errors)})
