"""The policy for the whole machine: /etc/hugealign.toml, read and checked."""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Any

from hugealign.diagnosis.refusal import DiagnosedError, diagnosed, error_name
from hugealign.errors import UsageError
from hugealign.io.regular import FileError, opened
from hugealign.io.units import nearest, parse_size

PATH = "/etc/hugealign.toml"
_SHARE = 50  # the default bound is one part in 50 of the memory
_LIMIT = 1 << 16  # bytes of the file
_MOST = 1000  # patterns


@dataclass(frozen=True, slots=True)
class Policy:
    """What may be made huge on the machine.

    Attributes:
        max: Bytes of memory for all of it; None for a fiftieth of the machine's.
        least: The least saving that is worth it, in per cent of a program's own processor time.
        include: Patterns of units and paths to take even where that is not known to be harmless, or to save anything.
        exclude: Patterns of units and paths to leave.
        fix: Run services from fixed copies where that gives windows.
        everything: Take all text that is in use, whatever it saves.
    """

    max: int | None = None
    least: float = 1.0
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    fix: bool = False
    everything: bool = False

    def bound(self) -> int:
        """Return the most bytes of memory."""
        if self.max is not None:
            return self.max
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _SHARE

    def includes(self, name: str) -> bool:
        """Return whether the unit or path *name* is to be taken."""
        return any(fnmatchcase(name, pattern) for pattern in self.include)

    def excludes(self, name: str) -> bool:
        """Return whether the unit or path *name* is to be left."""
        return any(fnmatchcase(name, pattern) for pattern in self.exclude)


class PolicyError(DiagnosedError):
    """The policy has an error: nothing is done."""

    exit_status = 2


def read(path: str = PATH) -> Policy:
    """Return the policy in the file at *path*, the default one without a file.  Raises PolicyError, HugealignError."""
    try:
        with opened(path, empty=True) as fd:
            data = os.read(fd, _LIMIT + 1)
    except (FileError, OSError) as error:
        if error_name(error) == "ENOENT":
            return Policy()
        raise PolicyError.of(diagnosed(path, error)) from error
    return parsed(data, path)


def parsed(data: bytes, path: str = PATH) -> Policy:
    """Return the policy in *data*, the content of the file at *path*.  Raises PolicyError, which names the line."""
    if len(data) > _LIMIT:
        raise PolicyError("policy.too-large", file=path, most=_LIMIT)
    try:
        text = data.decode("utf-8")
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise PolicyError("policy.not-toml", file=path, line=_broken(data)) from error
    known = {field.name for field in fields(Policy)}
    policy = Policy()
    for key, value in table.items():
        line_of = _line(text, key)
        if key not in known:
            raise PolicyError("policy.unknown-key", file=path, line=line_of, key=key, meant=nearest(key, known))
        try:
            policy = replace(policy, **{key: _READERS[key](value)})
        except (TypeError, ValueError, UsageError) as error:
            raise PolicyError("policy.bad-value", file=path, line=line_of, key=key, example=_EXAMPLES[key]) from error
    return policy


def _broken(data: bytes) -> int:
    """Return the number of the first line of the statement that is not TOML, behind what can be parsed before it."""
    lines = data.splitlines(keepends=True)
    for count in range(len(lines), -1, -1):
        with suppress(ValueError, RecursionError):
            tomllib.loads(b"".join(lines[:count]).decode("utf-8"))
            return count + 1
    return 1


def _line(text: str, key: str) -> int:
    """Return the number of the line that sets *key*; 0 if it is not found."""
    pattern = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[.=]|\s*\[+\s*[\"']?{re.escape(key)}")
    return next((number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line)), 0)


def size(value: object) -> int:
    """Return the bytes of ``512M``, or of ``2%`` of the machine's memory.  Raises TypeError, ValueError, UsageError."""
    if not isinstance(value, str):
        raise TypeError
    if value.endswith("%"):
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return int(total * percent(float(value[:-1])) / 100)
    return parse_size(value, "max")


def percent(value: object) -> float:
    """Return a number from 0 to 100.  Raises TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    if not 0 <= value <= 100:
        raise ValueError
    return float(value)


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _patterns(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(part, str) and part for part in value):
        raise TypeError
    if len(value) > _MOST:
        raise ValueError
    return tuple(value)


_READERS: Mapping[str, Any] = {
    "max": size,
    "least": percent,
    "include": _patterns,
    "exclude": _patterns,
    "fix": _switch,
    "everything": _switch,
}
_EXAMPLES: Mapping[str, str] = {
    "max": 'max = "512M"',
    "least": "least = 1.0",
    "include": 'include = ["mariadb.service"]',
    "exclude": 'exclude = ["/usr/bin/gdb"]',
    "fix": "fix = true",
    "everything": "everything = true",
}


def words(policy: Policy, given: Sequence[str]) -> tuple[str, ...]:
    """Return the options of `hugealign enable --all` that set what was *given* on its command line."""
    result: list[str] = []
    if "max" in given:
        result.append(f"--max={policy.max}")
    if "least" in given:
        result.append(f"--least={policy.least:g}")
    return (*result, *(f"--{name}" for name in ("fix", "everything") if name in given))
