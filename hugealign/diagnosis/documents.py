"""The JSON reports: how records become one, and the errors in it.

A record lists what its JSON has in `JSON`, in words: ``key``, or ``key=path`` where the record has another name for it
(``huge_seen=seen``, ``pid=process.pid``); a method without arguments is called.  Dots in a key make objects within:
``budget.why``.  None on the path is null.  With ``?`` at its end, an empty value is null; with ``??`` it is left out.
``*=path`` includes the JSON of the record at *path*, if there is one.  The record of a whole report also has the name
of its `SCHEMA`.

packaging/schemas.py makes the schemas, from the types and docstrings of these fields and properties.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MethodType
from typing import Any

from hugealign.diagnosis import render
from hugealign.diagnosis.refusal import diagnosis_of
from hugealign.diagnosis.values import Diagnosis
from hugealign.io.units import printable
from hugealign.records import Record
from hugealign.version import __version__


class Failure(Record):
    """Why something failed: a message, or else a diagnosis."""

    subject: str
    error: Exception

    JSON = "message diagnosis"

    @property
    def diagnosis(self) -> Diagnosis | None:
        """What prevents it; None if it only failed."""
        return diagnosis_of(self.subject, self.error)

    @property
    def message(self) -> str | None:
        """What failed; None if there is a diagnosis."""
        return None if self.diagnosis else str(self.error)


class Failed(Record):
    """A target that failed, and why."""

    target: str
    """As the user named it."""
    failure: Failure

    JSON = "target message=failure.message diagnosis=failure.diagnosis"


def text(report: Any, *, line: bool = False, names: Callable[[str], str] = printable) -> str:
    """Return the text of a *report*, a record; on one *line* for reports that go on.  Strings go through *names*."""
    return to_json(report.SCHEMA, _plain(report, names), line=line)


def to_json(schema: str, body: Mapping[str, Any], *, line: bool = False) -> str:
    """Return the text of a report: *body* after the name of its *schema*."""
    document = {"schema": schema, "tool": {"name": "hugealign", "version": __version__}, **body}
    return json.dumps(document, indent=None if line else 1) + "\n"


def parts(form: str) -> Iterator[tuple[str, list[str], str]]:
    """Yield the key, the path and the question marks of each word of a `JSON`."""
    for word in form.split():
        named = word.rstrip("?")
        key, _, path = named.partition("=")
        yield key, (path or key).split("."), word[len(named) :]


def failed(errors: Iterable[tuple[str, Exception]]) -> tuple[Failed, ...]:
    """Return the entries of *errors*: targets, as the user named them, with the error of each."""
    return tuple(Failed(target, Failure(target, error)) for target, error in errors)


def _plain(value: Any, names: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return names(value)
    if isinstance(value, Diagnosis):
        return render.document(value)
    if form := getattr(value, "JSON", None):
        return _object(value, form, names)
    if isinstance(value, Mapping):
        return {names(str(key)): _plain(one, names) for key, one in value.items()}
    return [_plain(one, names) for one in value] if isinstance(value, Collection) else value


def _object(record: object, form: str, names: Callable[[str], str]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, path, marks in parts(form):
        value: Any = record
        for name in path:
            value = value[name] if isinstance(value, Mapping) else None if value is None else getattr(value, name)
            value = value() if isinstance(value, MethodType) else value  # a value can be callable
        if key == "*":
            result |= _plain(value, names) or {}
        elif value or marks != "??":
            *outer, last = key.split(".")
            inner = result.setdefault(outer[0], {}) if outer else result
            inner[last] = _plain(value or None if marks else value, names)
    return result
