"""Show the findings: text for people, JSON for programs.  Pure: returns strings, never prints."""

import json
from collections import Counter

from hugealign.doctor.checks import NOTE, OBSTACLE, OK, UNKNOWN, Condition
from hugealign.version import __version__

#: The version of the JSON's shape; ``doctor-1.schema.json`` beside this file describes it.
SCHEMA = "hugealign.doctor/1"

_MARKS = {OK: "✓", OBSTACLE: "✗", NOTE: "–", UNKNOWN: "?"}  # noqa: RUF001 - the dash is meant
_ASCII = {OK: "+", OBSTACLE: "x", NOTE: "-", UNKNOWN: "?"}


def text(findings: list[Condition], encoding: str) -> str:
    """Return one line for each finding and one for its fix, in characters that *encoding* has."""
    marks = _MARKS
    try:
        "".join(marks.values()).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        marks, encoding = _ASCII, "ascii"
    width = max(len(_area(f)) for f in findings)
    lines = []
    for finding in findings:
        lines.append(f"{marks[finding.status]} {_area(finding).ljust(width)}  {finding.message}")
        if finding.mend:
            lines.append(f"  {'':{width}}  fix: {finding.mend}")
    obstacles, unseen = (sum(f.status == status for f in findings) for status in (OBSTACLE, UNKNOWN))
    lines.append(f"{obstacles or 'nothing'} in the way of huge text" + (f", {unseen} not seen" if unseen else ""))
    return "".join(f"{line}\n" for line in lines).encode(encoding, "replace").decode(encoding)


def to_json(findings: list[Condition]) -> str:
    """Return the JSON document ``hugealign.doctor/1``."""
    count = Counter(f.status for f in findings)
    document = {
        "schema": SCHEMA,
        "tool": {"name": "hugealign", "version": __version__},
        "findings": [
            {"id": f.id, "status": f.status, "message": f.message, "mend": f.mend or None, "data": f.data}
            for f in findings
        ],
        "summary": {status: count[status] for status in (OK, OBSTACLE, NOTE, UNKNOWN)},
    }
    return json.dumps(document, indent=1) + "\n"


def _area(finding: Condition) -> str:
    return finding.id.partition(".")[0]
