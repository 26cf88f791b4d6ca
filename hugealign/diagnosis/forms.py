"""A diagnosis as other programs want it: a line of a compiler, a command to GitHub's runner, a result of SARIF 2.1.0.

Section numbers are those of "Static Analysis Results Interchange Format Version 2.1.0", OASIS.  GitHub's escapes are
those that its runner undoes (ActionCommand.cs in github.com/actions/runner).
"""

import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from hugealign.diagnosis.catalogue import ERROR, NOTE, WARNING, advice, row
from hugealign.diagnosis.render import label, sentence, text, what_helps
from hugealign.diagnosis.values import Diagnosis
from hugealign.io.units import printable
from hugealign.version import __version__

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_COMMANDS = {ERROR: "error", WARNING: "warning", NOTE: "notice"}


def gcc(diagnosis: Diagnosis) -> str:
    """Return ``file:1:1: error: what is wrong [HA001]``; the place is a formality."""
    severity = row(diagnosis.code).severity
    return f"{printable(diagnosis.subject)}:1:1: {severity}: {sentence(diagnosis)} [{diagnosis.code}]"


def junit(diagnosis: Diagnosis) -> str:
    """Return what is wrong and what helps, in a line each."""
    return "\n".join((f"{label(diagnosis)}: {sentence(diagnosis)}", *_fix(diagnosis)))


def github(diagnosis: Diagnosis, base: str) -> str:
    """Return the command that annotates the file, whose path becomes relative to *base* if it lies below."""
    path = printable(relative(diagnosis.subject, base))
    entry = row(diagnosis.code)
    title = _property(f"{diagnosis.code}: {entry.title}")
    message = "\n".join((f"{path}: {sentence(diagnosis)}", *_fix(diagnosis)))
    return f"::{_COMMANDS[entry.severity]} file={_property(path)},title={title}::{_data(message)}"


def _fix(diagnosis: Diagnosis) -> list[str]:
    advice = what_helps(diagnosis)
    return [f"fix: {advice}"] if advice else []


def relative(path: str, base: str) -> str:
    """Return *path* as services that annotate files want it: relative to *base* if it lies below, and normalised."""
    if path.startswith(base.rstrip("/") + "/"):
        path = path[len(base.rstrip("/")) + 1 :].lstrip("/")
    return os.path.normpath(path)


def _data(words: str) -> str:
    return words.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(words: str) -> str:
    return _data(words).replace(":", "%3A").replace(",", "%2C")


def sarif(codes: Sequence[str], results: list[dict[str, Any]], unchecked: Sequence[Diagnosis], base: str) -> str:
    """Return the document of a run that looks for *codes*: its `sarif_result`s, and what it could not check."""
    run = {
        "tool": {
            "driver": {"name": "hugealign", "version": __version__, "rules": [_sarif_rule(code) for code in codes]}
        },
        # 3.20.14: false if the run did not check everything that was requested.
        "invocations": [
            {
                "executionSuccessful": not unchecked,
                "toolExecutionNotifications": [_sarif_notification(diagnosis, base) for diagnosis in unchecked],
            }
        ],
        "results": results,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _sarif_rule(code: str) -> dict[str, Any]:
    entry = row(code)
    fix = f"\n\nFix: {advice(code)}" if entry.fix else ""
    return {
        "id": code,
        "shortDescription": {"text": entry.title},
        "fullDescription": {"text": entry.source},
        "help": {"text": f"{entry.source}{fix}\n\nMore: hugealign explain {code}"},
        "defaultConfiguration": {"level": entry.severity},
    }


def sarif_result(
    diagnosis: Diagnosis, codes: Sequence[str], base: str, build_id: str, region: dict[str, int], accepted: str = ""
) -> dict[str, Any]:
    """Return *diagnosis*, one of *codes*, as a result.

    *region* says which bytes of the file, *build_id* which build; *accepted* is why it does not count, if it does not.
    """
    path = relative(diagnosis.subject, base)
    code, segment = diagnosis.code, diagnosis.facts.get("segment", 0)
    result: dict[str, Any] = {
        "ruleId": code,
        "ruleIndex": codes.index(code),
        "level": row(code).severity,
        "message": {"text": ". ".join((sentence(diagnosis), *_fix(diagnosis)))},
        # GitHub wants a line; the place in a binary file is in bytes (3.30.4).
        "locations": [_sarif_location(path, region={"startLine": 1} | region)],
        # 3.27.17.  The first follows a file through rebuilds, and is the one that GitHub reads; the second is the
        # same wherever the file is copied to.
        "partialFingerprints": {"primaryLocationLineHash": f"{_hash(path, code, segment)}:1"}
        | ({"buildId/v1": f"{build_id}:{code}:{segment}"} if build_id else {}),
    }
    if accepted:
        result["suppressions"] = [{"kind": "external", "justification": accepted}]
    return result


def _sarif_notification(diagnosis: Diagnosis, base: str) -> dict[str, Any]:
    path = diagnosis.subject
    return {
        "level": "error",
        "message": {"text": f"{printable(path)}: could not check: {text(diagnosis)}"},
        "locations": [_sarif_location(relative(path, base))],
    }


def _sarif_location(path: str, **more: Any) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(path)}, **more}}


def _hash(*parts: object) -> str:
    return hashlib.sha256(b"\0".join(os.fsencode(str(part)) for part in parts)).hexdigest()[:16]


def _uri(path: str) -> str:
    """Return *path* as a URI reference (RFC 3986): percent-encoded, the colon too, which would make a scheme."""
    return ("file://" if path.startswith("/") else "") + quote(os.fsencode(path))
