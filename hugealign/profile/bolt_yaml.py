"""BOLT's YAML (``llvm-bolt -w``, ``perf2bolt -w``): counts of blocks, branches and calls of each function."""

from collections.abc import Iterator
from typing import Any, BinaryIO

from hugealign.profile import library
from hugealign.profile.model import Malformed, Place, Profile, ProfileError, count_of

_LIMIT = 1 << 30


def read(stream: BinaryIO, profile: Profile) -> None:
    """Add what the YAML says to *profile*.  Raises ProfileError."""
    yaml = library.find("yaml", "PyYAML", "python3-yaml")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    data = stream.read(_LIMIT + 1)
    if len(data) > _LIMIT:
        raise ProfileError("is larger than 1 GiB; use BOLT's fdata")
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(data, Loader=loader)):
            raise ProfileError("has YAML aliases, which BOLT does not write")
        document = yaml.load(data, Loader=loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        raise ProfileError(f"is no YAML{f' (line {where.line + 1})' if where else ''}") from None
    functions = [f for f in _list(document, "functions") if isinstance(f, dict)]
    if not functions:
        raise ProfileError("has no functions")
    names: dict[Any, Place] = {}
    for number, function in enumerate(functions, 1):
        try:
            names[str(function.get("fid"))] = profile.place(str(function["name"]).encode("utf-8", "surrogateescape"))
        except (Malformed, KeyError, UnicodeEncodeError):
            profile.malformed(number)
    for number, function in enumerate(functions, 1):
        if place := names.get(str(function.get("fid"))):
            _function(function, place, names, profile, number)


def _function(function: dict[str, Any], place: Place, names: dict[Any, Place], profile: Profile, number: int) -> None:
    total = 0
    try:
        total = _count(function, "exec")
    except Malformed:
        profile.malformed(number)
    inside = 0
    for block in _list(function, "blocks"):
        try:
            inside += _count(block, "exec")
            # Block counts are left out where the branches tell them.
            inside += sum(_count(next_block, "cnt") for next_block in _list(block, "succ"))
            for call in _list(block, "calls"):
                callee = names.get(str(call.get("fid")))
                if callee is not None and callee != place:
                    profile.call(place, callee, _count(call, "cnt"))
        except (Malformed, AttributeError):
            profile.malformed(number)
    profile.good += 1
    profile.add(place, max(total, inside))


def _list(mapping: Any, key: str) -> Iterator[Any]:
    value = mapping.get(key) if isinstance(mapping, dict) else None
    return iter(value if isinstance(value, list) else ())


def _count(mapping: Any, key: str) -> int:
    value = mapping.get(key, 0) if isinstance(mapping, dict) else 0
    return count_of(str(value).encode("ascii", "replace"))
