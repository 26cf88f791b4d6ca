"""A diagnosis in English and as JSON.  No other module words one; names in facts become safe to print here."""

import errno
import os

from hugealign.diagnosis.catalogue import REMEDIES, advice, row
from hugealign.diagnosis.values import ARGUMENTS, COMMAND, OUTPUT, ROOT, SUBJECT, Diagnosis, Remedy
from hugealign.io.units import counted, format_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_PLACEHOLDERS = {ARGUMENTS: " [ARG]...", COMMAND: " COMMAND", OUTPUT: " OUT", SUBJECT: " FILE"}
#: The colours of a terminal (ECMA-48, SGR) by severity, and for what else stands out.
_COLOURS = {"error": "31", "warning": "33", "ok": "32", "command": "36"}
_SHELL = ("sh", "-c")


def text(diagnosis: Diagnosis, *, colour: bool = False) -> str:
    """Return what is wrong and, after a semicolon, what to do."""
    wrong = sentence(diagnosis)
    parts = (painted(wrong, row(diagnosis.code).severity) if colour else wrong, what_helps(diagnosis, colour=colour))
    return "; ".join(filter(None, parts))


def sentence(diagnosis: Diagnosis) -> str:
    """Return what is wrong."""
    return _filled(row(diagnosis.code).sentence, diagnosis.facts)


def what_helps(diagnosis: Diagnosis, *, colour: bool = False) -> str:
    """Return what to do about it: the remedy, else what the catalogue advises; empty if there is nothing."""
    if diagnosis.remedy:
        return remedy(diagnosis.remedy, diagnosis.facts, colour=colour)
    return advice(diagnosis.code)


def label(diagnosis: Diagnosis) -> str:
    """Return ``error[HA001]``."""
    return f"{row(diagnosis.code).severity}[{diagnosis.code}]"


def remedy(what: Remedy, facts: "Mapping[str, int | str] | None" = None, *, colour: bool = False) -> str:
    """Return what to do about a diagnosis with *facts*."""
    shown = painted(command(what), "command") if colour else command(what)
    return _filled(REMEDIES[what.kind], facts or {}, {"command": shown, "effect": effect(what)})


def lines(diagnosis: Diagnosis) -> list[str]:
    """Return a line for what is wrong and one for what to do, both `painted`."""
    return list(
        filter(None, (painted(sentence(diagnosis), row(diagnosis.code).severity), what_helps(diagnosis, colour=True)))
    )


def painted(words: str, meaning: str) -> str:
    """Return the *words* of a report in the colour of *meaning*: a severity, ``ok`` or ``command``.

    Names have no escape sequences left, so `hugealign.cli.output` can take the colours out again.
    """
    return f"\x1b[{_COLOURS[meaning]}m{words}\x1b[0m" if words and meaning in _COLOURS else words


def counted_huge(words: str, huge: int, possible: int) -> str:
    """Return *words* in the colour of *huge* of *possible* windows."""
    return painted(words, "ok" if huge == possible > 0 else "error" if not huge else "warning")


def command(what: Remedy) -> str:
    """Return the command of a remedy, quoted for a shell, with a placeholder for what it lacks; perhaps empty."""
    if not what.argv:
        return ""
    if what.argv[:2] == _SHELL and what.needs != ROOT:
        return printable(what.argv[2])
    import shlex  # it imports re, and `run` does without

    return f"{'sudo ' * (what.needs == ROOT)}{printable(shlex.join(what.argv))}{_PLACEHOLDERS.get(what.needs, '')}"


def effect(what: Remedy) -> str:
    """Return the windows before and after a remedy; empty if they are not known."""
    return "" if what.after is None else f"{what.before} -> {counted(what.after, 'window')}"


def document(diagnosis: Diagnosis | None) -> "dict[str, Any] | None":
    """Return the JSON form, which diagnosis.schema.json beside this file describes; None for no diagnosis."""
    if diagnosis is None:
        return None
    return {
        "code": diagnosis.code,
        "severity": row(diagnosis.code).severity,
        "subject": printable(diagnosis.subject),
        "facts": {k: printable(v) if isinstance(v, str) else v for k, v in diagnosis.facts.items()},
        "message": sentence(diagnosis),
        "remedy": _remedy_object(diagnosis),
    }


def _remedy_object(diagnosis: Diagnosis) -> "dict[str, Any] | None":
    what, advice = diagnosis.remedy or Remedy("advice"), what_helps(diagnosis)
    return (
        {
            "kind": what.kind,
            "argv": list(what.argv) if all(map(is_utf8, what.argv)) else [],
            "needs": what.needs or None,
            "before": what.before,
            "after": what.after,
            "message": advice,
        }
        if advice
        else None
    )


class _Fact:
    """A fact within a sentence, in the form that catalogue.py names behind the colon."""

    def __init__(self, value: int | str) -> None:
        self._value = value

    def __format__(self, form: str) -> str:
        value = self._value
        if isinstance(value, str):
            return os.strerror(getattr(errno, value, 0)) if form == "errno" else printable(value)
        if form in _FORMS:
            return _FORMS[form](value)
        return counted(value, form) if form else str(value)


_FORMS = {"size": format_size, "hex": "{:#x}".format}


def _filled(form: str, facts: "Mapping[str, int | str]", words: "Mapping[str, str] | None" = None) -> str:
    """Return the sentence *form*, completed by *facts* and finished *words*; catalogue.py says how one is written."""
    given: dict[str, Any] = {name: _Fact(value) for name, value in facts.items()} | dict(words or {})
    there = {name: given[name] for name, value in {**facts, **(words or {})}.items() if value}
    first, *rest = form.split("[")
    parts = [first.format_map(given)]
    for part in rest:
        optional, _, after = part.partition("]")
        parts += [_optional(optional, there), after.format_map(given)]
    return "".join(parts)


def _optional(part: str, facts: "Mapping[str, Any]") -> str:
    try:
        return part.format_map(facts)
    except KeyError:
        return ""


def is_utf8(word: str) -> bool:
    """Return whether JSON can hold *word*, of a command, as it is."""
    return word == word.encode(errors="replace").decode()
