"""The frame of every JSON report: its schema, the tool that wrote it, and the errors in it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from hugealign.diagnosis import render
from hugealign.diagnosis.refusal import diagnosis_of
from hugealign.io.units import printable
from hugealign.version import __version__


def to_json(schema: str, body: Mapping[str, Any], *, line: bool = False) -> str:
    """Return the text of a report: *body* after the name of its *schema*; on one *line* for reports that go on."""
    document = {"schema": schema, "tool": {"name": "hugealign", "version": __version__}, **body}
    return json.dumps(document, indent=None if line else 1) + "\n"


def errors(failed: Iterable[tuple[str, Exception]]) -> list[dict[str, Any]]:
    """Return the entries of what *failed*: targets, as the user named them, with the error of each."""
    return [{"target": printable(target), **failure(target, error)} for target, error in failed]


def failure(path: str, error: Exception) -> dict[str, Any]:
    """Return an *error* about the file at *path*: a diagnosis, or else a message."""
    diagnosis = diagnosis_of(path, error)
    return {"message": None if diagnosis else printable(str(error)), "diagnosis": render.document(diagnosis)}
