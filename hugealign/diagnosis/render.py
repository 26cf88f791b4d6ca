"""A diagnosis in English and as JSON.  No other module words one; names in facts become safe to print here."""

from hugealign.diagnosis.catalogue import REMEDIES, row
from hugealign.diagnosis.values import COMMAND, OUTPUT, ROOT, SUBJECT, Diagnosis, Remedy
from hugealign.io.units import counted, format_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_PLACEHOLDERS = {COMMAND: " COMMAND", OUTPUT: " OUT", SUBJECT: " FILE"}


def text(diagnosis: Diagnosis) -> str:
    """Return what is wrong and, after a semicolon, what to do."""
    said = sentence(diagnosis)
    return f"{said}; {remedy(diagnosis.remedy, diagnosis.facts)}" if diagnosis.remedy else said


def sentence(diagnosis: Diagnosis) -> str:
    """Return what is wrong."""
    return _filled(row(diagnosis.code).sentence, diagnosis.facts)


def remedy(what: Remedy, facts: "Mapping[str, int | str] | None" = None) -> str:
    """Return what to do about a diagnosis with *facts*."""
    return _filled(REMEDIES[what.kind], {**(facts or {}), "command": command(what), "effect": effect(what)})


def command(what: Remedy) -> str:
    """Return the command of a remedy, quoted for a shell, with a placeholder for what it lacks; empty without one."""
    if not what.argv:
        return ""
    import shlex  # it imports re, and `run` does without

    return f"{'sudo ' * (what.needs == ROOT)}{printable(shlex.join(what.argv))}{_PLACEHOLDERS.get(what.needs, '')}"


def effect(what: Remedy) -> str:
    """Return the windows before and after a remedy; empty if they are not known."""
    return "" if what.after is None else f"{what.before} -> {counted(what.after, 'window')}"


def document(diagnosis: Diagnosis | None) -> "dict[str, Any] | None":
    """Return the JSON form, which diagnosis.schema.json beside this file describes; None for no diagnosis."""
    if diagnosis is None:
        return None
    what = diagnosis.remedy
    return {
        "code": diagnosis.code,
        "severity": row(diagnosis.code).severity,
        "subject": printable(diagnosis.subject),
        "facts": {k: printable(v) if isinstance(v, str) else v for k, v in diagnosis.facts.items()},
        "message": sentence(diagnosis),
        "remedy": {
            "kind": what.kind,
            "argv": list(what.argv) if all(map(_is_utf8, what.argv)) else [],
            "needs": what.needs or None,
            "before": what.before,
            "after": what.after,
            "message": remedy(what, diagnosis.facts),
        }
        if what
        else None,
    }


class _Fact:
    """A fact within a sentence; its format is ``size`` for bytes, or a noun for a number of things."""

    def __init__(self, value: int | str) -> None:
        self._value = value

    def __format__(self, form: str) -> str:
        if isinstance(self._value, str):
            return printable(self._value)
        return format_size(self._value) if form == "size" else counted(self._value, form) if form else str(self._value)


def _filled(form: str, facts: "Mapping[str, int | str]") -> str:
    """Return the sentence *form*, completed by *facts*; catalogue.py says how one is written."""
    given = {name: _Fact(value) for name, value in facts.items()}
    there = {name: fact for name, fact in given.items() if facts[name]}
    before, *parts = form.split("[")
    optional = (part.partition("]")[::2] for part in parts)
    return before.format_map(given) + "".join(
        _optional(part, there) + rest.format_map(given) for part, rest in optional
    )


def _optional(part: str, facts: "Mapping[str, _Fact]") -> str:
    try:
        return part.format_map(facts)
    except KeyError:
        return ""


def _is_utf8(word: str) -> bool:
    return word == word.encode(errors="replace").decode()
