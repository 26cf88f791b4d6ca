"""Separate debug files, found by build-id: they name the functions of stripped programs and addresses of other builds.

Their paths are ``.build-id/ab/cdef.debug``, as in GDB's manual ("Separate Debug Files"), and ``BUILDID/debuginfo`` or
``BUILDID/executable``, as debuginfod's clients keep them (debuginfod_find_debuginfo(3), "Cache").
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from hugealign.elf.symbols import Functions, read_functions
from hugealign.errors import HugealignError

_BUILD_ID = re.compile(r"[0-9a-f]{4,128}")  # it becomes a part of paths
_SYMBOLS = ".symtab"


def usual_places() -> list[str]:
    """Return the directories that hold debug files on most machines, including the caches of debuginfod's clients."""
    home = os.path.expanduser("~")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    kept = os.environ.get("DEBUGINFOD_CACHE_PATH") or os.path.join(cache, "debuginfod_client")
    return ["/usr/lib/debug", kept]


class DebugFiles:
    """The debug files below some directories; each is read once, and used only if its build-id matches."""

    def __init__(self, directories: Sequence[str] | None = None) -> None:
        """Look in *directories*, by default in the usual ones."""
        self._directories = usual_places() if directories is None else directories
        self._known: dict[str, Functions | None] = {}

    def functions(self, build_id: str) -> Functions | None:
        """Return the functions of a build, named by its symbol table; None if no file here has them."""
        if build_id not in self._known:
            candidates = (_read(path, build_id) for path in self._paths(build_id))
            self._known[build_id] = next((candidate for candidate in candidates if candidate), None)
        return self._known[build_id]

    def named(self, functions: Functions) -> Functions:
        """Return *functions*; for a stripped file, with the names from its debug file, if there is one."""
        if functions.source == _SYMBOLS or not (named := self.functions(functions.build_id)):
            return functions
        # The segments of a debug file stand for bytes that it does not contain.
        return replace(named, image=functions.image, text=functions.text, lead=functions.lead)

    def _paths(self, build_id: str) -> Iterator[str]:
        if _BUILD_ID.fullmatch(build_id):
            for directory in self._directories:
                yield os.path.join(directory, ".build-id", build_id[:2], f"{build_id[2:]}.debug")
                yield os.path.join(directory, build_id, "debuginfo")
                yield os.path.join(directory, build_id, "executable")


def _read(path: str, build_id: str) -> Functions | None:
    with suppress(HugealignError, OSError, ValueError):
        functions = read_functions(path)
        if functions.build_id == build_id and functions.source == _SYMBOLS:
            return functions
    return None
