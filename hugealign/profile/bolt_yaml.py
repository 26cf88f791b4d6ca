"""BOLT's YAML (``llvm-bolt -w``, ``perf2bolt -w``): counts of blocks, branches and calls of each function."""

import importlib
import site
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, BinaryIO

from hugealign.io.units import printable
from hugealign.profile.model import Malformed, Place, Profile, ProfileError, count_of
from hugealign.profile.source import ProfileSource

_NODES_LIMIT = 1_000_000  # of one function, which has about ten for each of its blocks
_VALUE_LIMIT, _FUNCTION_LIMIT = 1 << 20, 32 << 20  # bytes of one value or comment, and of a function's values


def read(source: ProfileSource, profile: Profile) -> None:
    """Add the YAML's counts to *profile*, function by function.  Raises ProfileError."""
    yaml = _yaml()
    names: dict[str, Place] = {}
    calls: dict[tuple[Place, str], int] = {}  # a callee may be defined later, and is a number until then
    number = 0
    try:
        for number, function in enumerate(_functions(source.stream, yaml), 1):
            try:
                place = profile.place(str(function["name"]).encode("utf-8", "surrogateescape"))
            except (Malformed, KeyError, UnicodeEncodeError):
                profile.malformed(number)
                continue
            fid = str(function.get("fid"))
            profile.room.take(len(fid))
            names[fid] = place
            _function(function, place, calls, profile, number)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        raise ProfileError(f"is not YAML{f' (line {where.line + 1})' if where else ''}") from None
    if not number:
        raise ProfileError("has no functions")
    for (place, fid), count in calls.items():
        callee = names.get(fid)
        if callee is not None and callee != place:
            profile.call(place, callee, count)


def _yaml() -> ModuleType:
    """Return PyYAML; the tool starts without installed packages, for speed, so it has to be looked for."""
    try:
        return importlib.import_module("yaml")
    except ImportError:
        site.main()
    try:
        return importlib.import_module("yaml")
    except ImportError:
        # The interpreter by its path, since `pip` on PATH can be another's.
        ways = f"{printable(sys.executable)} -m pip install PyYAML, or Debian: apt install python3-yaml"
        raise ProfileError(f"needs PyYAML, which is not installed ({ways})") from None


class _Fed:
    """The stream, with the bytes that the parser took since it last gave a *value*, and since a *function* began.

    The parser keeps a value until it is complete, however long that gets.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.value = self.function = 0

    def read(self, size: int) -> bytes:
        data = self.stream.read(size)
        self.value += len(data)
        self.function += len(data)
        if self.value > _VALUE_LIMIT:
            raise ProfileError(f"has a value or comment of more than {_VALUE_LIMIT >> 20} MiB")
        if self.function > _FUNCTION_LIMIT:
            raise ProfileError(f"has a function of more than {_FUNCTION_LIMIT >> 20} MiB")
        return data


def _events(fed: _Fed, yaml: ModuleType) -> Iterator[Any]:
    for event in yaml.parse(fed, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        fed.value = 0
        yield event


def _functions(stream: BinaryIO, yaml: ModuleType) -> Iterator[dict[str, Any]]:
    """Yield the mappings in the sequence ``functions`` of a document; they hold text, lists and mappings.

    They are built from the parser's events one by one: the document would take fifty times its size.
    """
    fed = _Fed(stream)
    events = _events(fed, yaml)
    ends = (yaml.SequenceEndEvent, yaml.MappingEndEvent)
    left = 0

    def node(event: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise ProfileError(f"has a function of more than {_NODES_LIMIT} values")
        if isinstance(event, yaml.ScalarEvent):
            return event.value
        if isinstance(event, yaml.AliasEvent):
            raise ProfileError("has YAML aliases, which BOLT does not write")
        inside = []
        while not isinstance(inner := next(events), ends):
            inside.append(node(inner))
        if isinstance(event, yaml.SequenceStartEvent):
            return inside
        return {key: value for key, value in zip(inside[::2], inside[1::2], strict=True) if isinstance(key, str)}

    while not isinstance(event := next(events), (yaml.MappingStartEvent, yaml.StreamEndEvent)):
        pass
    while not isinstance(event, yaml.StreamEndEvent) and not isinstance(event := next(events), ends):
        left, fed.function = _NODES_LIMIT, 0
        key, value = node(event), next(events)
        if key != "functions" or not isinstance(value, yaml.SequenceStartEvent):
            node(value)
            continue
        while not isinstance(item := next(events), ends):
            left, fed.function = _NODES_LIMIT, 0
            function = node(item)
            if isinstance(function, dict):
                yield function


def _function(
    function: dict[str, Any], place: Place, calls: dict[tuple[Place, str], int], profile: Profile, number: int
) -> None:
    total = 0
    try:
        total = _count(function, "exec")
    except Malformed:
        profile.malformed(number)
    inside = 0
    for block in _list(function, "blocks"):
        try:
            inside += _count(block, "exec")
            # BOLT leaves out block counts that follow from the branches.
            inside += sum(_count(next_block, "cnt") for next_block in _list(block, "succ"))
            for call in _list(block, "calls"):
                key = (place, str(call.get("fid")))
                if key not in calls:
                    profile.room.take(len(key[1]))
                calls[key] = calls.get(key, 0) + _count(call, "cnt")
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
