"""The configuration of `verify`: ``hugealign.toml``, or ``[tool.hugealign]`` in ``pyproject.toml``.

Only the command reads it.  A link never does, and neither does `hugealign.verify`, whose caller says what it wants.
"""

import os

from hugealign.errors import UsageError
from hugealign.io.units import hint, printable
from hugealign.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

NAMES = ("hugealign.toml", "pyproject.toml")
_LARGEST = 1 << 18  # bytes of a file with something for us
_SEARCHED = 1 << 20  # bytes of a pyproject.toml, which may have nothing for us
_MOST_PATTERNS = 4096  # of the exceptions of a file; each costs a tenth of a millisecond
_MOST_DOTS = 200  # in a line: tomllib takes a dotted key in the square of its parts, and keys end with the line
_TEXT, _LIST, _FLAG, _TABLE = "a string", "a list of strings", "true or false", "a table"
_TABLES = "a list of tables"
#: The keys of [verify], and what each holds.  They are the long options of the command.
KEYS = {
    "select": _LIST,
    "ignore": _LIST,
    "fail-on": _TEXT,
    "page-size": _TEXT,
    "min-text": _TEXT,
    "min-windows": _TEXT,
    "max-unpacked": _TEXT,
    "jobs": _TEXT,
    "baseline": _TEXT,
    "allow-empty": _FLAG,
    "exceptions": _TABLES,
}
_EXCEPTION = {"files": _LIST, "ignore": _LIST, "reason": _TEXT}


class Setting(Record):
    """A value, and *where* it was set: ``--option``, or ``FILE: verify.key``."""

    value: "Any"  # each key has a type of its own
    where: str

    def __iter__(self) -> "Iterator[Any]":
        return iter((self.value, self.where))


class Exempt(Record):
    """Findings that the configuration accepts in some files, and why.

    *files* are patterns, matched against the name as given, the name below *directory*, and the name in an archive; a
    pattern without a slash also against the last part of it.
    """

    files: tuple[str, ...]
    ignore: Setting
    reason: str
    directory: str

    def covers(self, path: str) -> bool:
        """Whether it applies to the file at *path*, or to that member of an archive."""
        import fnmatch  # loads re

        inner = path.rpartition("!")[2]
        below = os.path.relpath(path, self.directory)
        return any(
            fnmatch.fnmatchcase(name, pattern)
            for pattern in self.files
            for name in (path, below, inner, *(() if "/" in pattern else (os.path.basename(inner),)))
        )


class Configuration(Record):
    """What the file says: a setting for each key in it, and the exceptions."""

    settings: dict[str, Setting]
    exceptions: tuple[Exempt, ...] = ()

    def chosen(self, key: str, given: "Any", default: "Any" = None) -> Setting:
        """Return the setting that counts for *key*: the option *given*, else the file's, else the *default*."""
        option = Setting(default if given is None else given, f"--{key}")
        return option if given is not None else self.settings.get(key, option)


NONE = Configuration({})


def find(directory: str) -> Configuration:
    """Return the configuration for a command that runs in *directory*: the nearest file, from there upward.

    A file whose owner is neither we, nor root, nor the owner of *directory* is an error: in a world-writable
    directory, any user could switch rules off.  Raises UsageError.
    """
    directory = os.path.abspath(directory)
    owners = {0, os.geteuid(), os.stat(directory).st_uid}
    while True:
        for name in NAMES:
            path = os.path.join(directory, name)
            table = _table(path, searched=True) if os.path.exists(path) else None
            if table is None:
                continue
            if table.owner not in owners:
                raise UsageError(f"{printable(path)} belongs to another user; name it, or /dev/null, by --config")
            return _read(path, table)
        above = os.path.dirname(directory)
        if above == directory:
            return NONE
        directory = above


def read(path: str) -> Configuration:
    """Return the configuration in the file at *path*.  Raises UsageError."""
    table = _table(path, searched=False)
    if table is None:
        raise UsageError(f"{printable(path)}: no [tool.hugealign] in it")
    return _read(path, table)


class _Table(Record):
    """The part of a file that is for us, and the *owner* of the very file that was read."""

    content: "dict[str, Any]"
    owner: int


def _table(path: str, *, searched: bool) -> _Table | None:
    """Return the part of the file at *path* that is for us; None for a pyproject.toml without one."""
    from hugealign.io import regular

    name = printable(path)
    try:
        with regular.opened(path, empty=True) as fd:
            data, owner = os.pread(fd, _SEARCHED, 0), os.fstat(fd).st_uid
    except regular.FileError as error:
        raise UsageError(f"{name}: {error}") from None
    shared = os.path.basename(path) == NAMES[1]
    if shared and searched and len(data) < _SEARCHED and b"hugealign" not in data:
        return None
    if len(data) > _LARGEST:
        raise UsageError(f"{name}: larger than 256 KiB; not a configuration file")
    import tomllib  # 10 ms, and most directories have no such file

    if any(line.count(b".") > _MOST_DOTS for line in data.split(b"\n")):
        raise UsageError(f"{name}: nested too deeply")
    try:
        document = tomllib.loads(data.decode())
    except ValueError as error:
        raise UsageError(f"{name}: {printable(str(error))}") from None
    except RecursionError:
        raise UsageError(f"{name}: nested too deeply") from None
    if not shared:
        return _Table(document, owner)
    tools = document.get("tool", {})
    ours = tools.get("hugealign") if isinstance(tools, dict) else None
    if ours is None:
        return None
    if not isinstance(ours, dict):
        raise UsageError(f"{name}: tool.hugealign: not a table")
    return _Table(ours, owner)


def _read(path: str, table: _Table) -> Configuration:
    """Return the configuration in the *table* of the file at *path*."""
    name = f"{printable(path)}: "
    verify = _checked(table.content, {"verify": _TABLE}, name).get("verify", {})
    settings = {
        key: Setting(value, f"{name}verify.{key}") for key, value in _checked(verify, KEYS, f"{name}verify.").items()
    }
    if baseline := settings.get("baseline"):
        settings["baseline"] = Setting(os.path.join(os.path.dirname(path), baseline.value), baseline.where)
    exceptions = settings.pop("exceptions", None)
    return Configuration(settings, tuple(_exceptions(path, exceptions.value)) if exceptions else ())


def _exceptions(path: str, tables: "list[dict[str, Any]]") -> "Iterator[Exempt]":
    left = _MOST_PATTERNS
    directory = os.path.dirname(os.path.abspath(path))
    for number, table in enumerate(tables, 1):
        place = f"{printable(path)}: verify.exceptions[{number}]: "
        _checked(table, _EXCEPTION, place)
        for key, kind in _EXCEPTION.items():
            if not table.get(key):
                raise UsageError(f"{place}an exception needs {key}, {kind}")
        left -= len(table["files"])
        if left < 0:
            raise UsageError(f"{place}more than {_MOST_PATTERNS} patterns in one file")
        ignore = Setting(table["ignore"], f"{place}ignore")
        yield Exempt(tuple(table["files"]), ignore, table["reason"], directory)


def _checked(table: "dict[str, Any]", kinds: dict[str, str], where: str) -> "dict[str, Any]":
    """Return the *table* at *where* if its keys and the types of its values are among *kinds*.  Raises UsageError."""
    for key, value in table.items():
        if key not in kinds:
            raise UsageError(f"{where}{printable(key)}: no such key{hint(key, kinds)}")
        if not _fits(value, kinds[key]):
            raise UsageError(f"{where}{key}: not {kinds[key]}")
    return table


def _fits(value: "Any", kind: str) -> bool:
    if kind in (_LIST, _TABLES):
        return isinstance(value, list) and all(isinstance(part, str if kind == _LIST else dict) for part in value)
    return isinstance(value, {_TEXT: str, _FLAG: bool, _TABLE: dict}[kind])
