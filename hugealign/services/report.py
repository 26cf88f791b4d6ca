"""What `enable` and `disable` did, as JSON.  Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from hugealign.diagnosis.refusal import failure
from hugealign.errors import HugealignError
from hugealign.io.units import printable
from hugealign.version import __version__

SCHEMA = "hugealign.enable/1"


def document(units: Mapping[str, Sequence[str]], errors: Sequence[tuple[str, HugealignError]]) -> dict[str, Any]:
    """Return the JSON document that enable-1.schema.json beside this file describes: *units* with their files."""
    return {
        "schema": SCHEMA,
        "tool": {"version": __version__},
        "units": [{"unit": printable(unit), "files": list(map(printable, files))} for unit, files in units.items()],
        "errors": [{"target": printable(unit), **failure(unit, error)} for unit, error in errors],
    }
