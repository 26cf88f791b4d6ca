"""GCC's coverage counts (.gcda), read by ``gcov --json-format``: how often each function was entered.

The .gcno of the same compilation must be next to the .gcda: it has the names.
"""

import json
import os
import re
from collections.abc import Iterable
from typing import Any

from hugealign.profile import tools
from hugealign.profile.model import Malformed, Profile, ProfileError, count_of
from hugealign.profile.source import ProfileSource

#: Where a .gcda has a version of letters, this has a small number (AUTO_PROFILE_VERSION in gcc/auto-profile.cc).
_AUTOFDO = re.compile(rb"adcg[\x01-\x1f]\0\0\0|gcda\0\0\0[\x01-\x1f]")
_LIMIT = 40 << 20  # bytes; parsed, a document takes some ten times its size


def read_data(source: ProfileSource, profile: Profile) -> None:
    """Add a .gcda.  Raises ProfileError."""
    with open(source.path, "rb") as file:
        if _AUTOFDO.match(file.read(8)):
            raise ProfileError(
                "is AutoFDO's profile for GCC (-fauto-profile), which no tool of GCC prints; give the perf.data that "
                "it was made of, or make one for LLVM of that (create_llvm_prof)"
            )
    gcov = tools.find("gcov", package="gcc")
    hint = "the .gcno of the same compilation must lie beside it"
    try:
        text = tools.text([gcov, "-j", "-t", os.path.realpath(source.path)], _LIMIT)
    except ProfileError as error:
        raise ProfileError(f"{error}; {hint}") from None
    if not text.strip():
        raise ProfileError(f"gcov finds nothing in it; {hint}")
    read(text.splitlines(), profile)


def read(lines: Iterable[bytes], profile: Profile) -> None:
    """Add gcov's JSON, one document per line, to *profile*."""
    for number, document in enumerate(lines, 1):
        if document.strip():
            try:
                parsed = json.loads(document, object_hook=_without_lines)
            except (ValueError, RecursionError):
                profile.malformed(number)
                continue
            _document(parsed, profile, number)


def _without_lines(fields: dict[str, Any]) -> dict[str, Any] | None:
    """Return a JSON object as read, but None for a line's: those are most of the document."""
    return None if "line_number" in fields else fields


def _document(document: Any, profile: Profile, number: int) -> None:
    files = document.get("files") if isinstance(document, dict) else None
    for entry in files if isinstance(files, list) else ():
        functions = entry.get("functions") if isinstance(entry, dict) else None
        for function in functions if isinstance(functions, list) else ():
            try:
                name, count = function["name"], function["execution_count"]
                weight = count_of(str(count).encode())
                place = profile.place(name.encode("utf-8", "surrogateescape"), str(entry.get("file", "")).encode())
            except (Malformed, KeyError, TypeError, AttributeError, UnicodeEncodeError):
                profile.malformed(number)
                continue
            profile.good += 1
            if weight:
                profile.add(place, weight)
