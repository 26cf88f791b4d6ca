"""An order in the forms of linkers and programs.  Pure: returns text."""

import json
from collections.abc import Iterator

from hugealign import orderfile
from hugealign.orderfile import OrderFile


def order(made: OrderFile) -> str:
    """Return hugealign's own form, from which the others can be made."""
    return orderfile.write(made)


def lld(made: OrderFile) -> str:
    """Return a file for lld's ``--symbol-ordering-file``, or for another linker that takes plain names.

    lld takes every local function of a name; the file cannot say which.  It leaves out names that begin with ``#`` or a
    space, or that contain a line's end: they cannot be written.
    """
    return "".join(f"{name}\n" for name in _names(made) if "\n" not in name and name == name.strip() and name[0] != "#")


def plain(made: OrderFile) -> str:
    """Return only the names, escaped as in hugealign's own form, one per line."""
    return "".join(f"{orderfile.escape(name)}\n" for name in _names(made))


def as_json(made: OrderFile) -> str:
    """Return the order as the JSON document ``hugealign.order/1``."""
    functions = [
        {
            "name": entry.name or None,
            "address": None if entry.name else entry.address,
            "file": entry.file or None,
            "samples": entry.samples,
            "kind": entry.kind,
            "window": entry.window,
            **({"blocks": list(entry.blocks)} if entry.blocks else {}),
            **({"unit": entry.unit} if entry.unit else {}),
        }
        for entry in made.entries
    ]
    return (
        json.dumps({"schema": "hugealign.order/1", "header": dict(made.header), "functions": functions}, indent=1)
        + "\n"
    )


FORMS = {"order": order, "lld": lld, "list": plain, "json": as_json}


def _names(made: OrderFile) -> Iterator[str]:
    seen: set[str] = set()
    for entry in made.entries:
        if entry.name and entry.name not in seen:
            seen.add(entry.name)
            yield entry.name
