"""Diagnoses that are known and accepted: the JSON report of an earlier run, read again."""

import json
import os
from collections import Counter
from typing import Any

from hugealign.diagnosis.values import Diagnosis
from hugealign.errors import UsageError
from hugealign.io import regular
from hugealign.io.units import printable
from hugealign.verification.result import Key, Verification

_LARGEST = 1 << 28  # bytes of a report
_VALUE = 8  # bytes of a report for each value in it, at least: an empty list is 2 in a file, and 64 in memory


class Baseline:
    """The accepted diagnoses: how many of each key are left to accept."""

    __slots__ = ("_left",)

    def __init__(self, keys: list[Key]) -> None:
        self._left = Counter(keys)

    def accepts(self, diagnosis: Diagnosis) -> bool:
        """Return whether *diagnosis* is a known one, and cross it off."""
        key = (_path(printable(diagnosis.subject)), diagnosis.code, str(diagnosis.facts["flags"]))
        self._left[key] -= 1
        return self._left[key] >= 0

    def fixed(self, paths: list[str], rules: frozenset[str]) -> list[Key]:
        """Return the accepted diagnoses of *rules* that the files at *paths* no longer have."""
        looked_at = {_path(printable(path)) for path in paths}
        return sorted(key for key in self._left.elements() if key[0] in looked_at and key[1] in rules)


def read(path: str, option: str = "--baseline") -> Baseline:
    """Return the baseline in the file at *path*, which *option* named.  Raises UsageError."""
    try:
        with regular.opened(path) as fd:
            data = os.pread(fd, min(os.fstat(fd).st_size, _LARGEST), 0)
    except regular.FileError as error:
        raise UsageError(f"{option}: {printable(path)}: {error}") from None
    return parse(data, path, option)


def parse(data: bytes, name: str, option: str = "--baseline") -> Baseline:
    """Return the baseline in *data*, the content of the file *name*, which *option* named.  Raises UsageError."""
    try:
        if sum(map(data.count, (b",", b"[", b"{"))) * _VALUE > len(data):
            raise ValueError  # noqa: TRY301
        document = json.loads(data)
        if document["schema"] != Verification.SCHEMA:
            raise ValueError  # noqa: TRY301  # whatever is wrong with the file gets the same message
        return Baseline([key for file in document["files"] for key in _keys(file)])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        make = "hugealign verify --json -o FILE"
        raise UsageError(f"{option}: {printable(name)}: not a report of {make}") from None


def _keys(file: "dict[str, Any]") -> list[Key]:
    known = file["diagnoses"] + [accepted["diagnosis"] for accepted in file.get("accepted", [])]
    return [(_path(str(file["path"])), str(finding["code"]), str(finding["facts"]["flags"])) for finding in known]


def _path(path: str) -> str:
    return os.path.normpath(path)
