"""What to do about the part of a program that is not huge: the one thing that gives the most, found by looking."""

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from hugealign import mounts
from hugealign.errors import HugealignError
from hugealign.fixing import cure
from hugealign.live import groups
from hugealign.live.rows import Group
from hugealign.machine import libraries
from hugealign.pagecache import measure
from hugealign.process import statx, texts
from hugealign.process.pagemap import State
from hugealign.process.smaps import Mapping
from hugealign.ps import runtimes
from hugealign.ps.parts import Kind, Part
from hugealign.ps.verdict import DELETED, why_none
from hugealign.regular import opened
from hugealign.units import printable
from hugealign.verification.rules import RELINK

_ASKED = 8  # windows of a file that the page cache is asked about: each costs a fault
_HERE = -100  # AT_FDCWD

#: Device, inode and time of change of a file in use.
_Identity = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Action:
    """Why windows are not huge, what to do, and how many of a process could be then."""

    reason: str = ""
    command: str = ""
    reachable: int = 0


class Actions:
    """Finds what to do, and remembers what it has learnt of files as long as they are the same."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._cures: dict[_Identity, cure.Cure | None] = {}
        self._libraries: dict[str, frozenset[str]] = {}

    def of(self, group: Group) -> Action:
        """Return what to do about *group*: for one of its processes, the first that lacks the most."""
        size = self._page_size
        process, part = max(group.members, key=lambda member: _lacking(member[1], size))
        possible, huge = part.possible(size), part.huge(size)
        with suppress(OSError):
            if huge < possible and texts.thp_disabled(process.pid):
                return Action("prctl(PR_SET_THP_DISABLE)", "start it without that", possible)
        if part.kind == Kind.CODE:
            return self._code(group, process.pid, part)
        service = groups.service(texts.control_groups(process.pid))
        restart = f"systemctl restart {service}" if service else "start it again"
        if part.deleted:
            if possible and huge == possible:
                return Action(DELETED, "", possible)
            return Action(DELETED, restart, possible)
        return self._file(group, process.pid, part, service, restart)

    def _code(self, group: Group, pid: int, part: Part) -> Action:
        possible, huge = part.possible(self._page_size), part.huge(self._page_size)
        if not possible:
            what = runtimes.mend(group.runtime, pid, windows=False)
            return Action(runtimes.why_none(group.runtime), what, part.text // self._page_size if what else 0)
        if huge == possible:
            return Action(reachable=possible)
        if not _touched(part, self._page_size):
            return Action("not touched yet", "", huge)
        what = runtimes.mend(group.runtime, pid, windows=True)
        return Action(f"{runtimes.code_name(group.runtime)} is on small pages", what, possible if what else huge)

    def _file(self, group: Group, pid: int, part: Part, service: str, restart: str) -> Action:
        size = self._page_size
        possible, huge = part.possible(size), part.huge(size)
        largest = max(part.mappings, key=lambda mapping: mapping.size)
        path, inside = _found(pid, largest)
        with suppress(HugealignError, OSError):
            if not path:
                return Action("its file cannot be looked at", "", possible)
            with opened(path) as fd:
                meant = measure.windows_meant(fd, size)
                wanted = possible if meant is None else min(meant, possible)
                if possible and huge >= wanted:
                    return Action(reachable=max(wanted, huge))
                if huge < possible and self._cached(fd, part):
                    return Action("the page cache has it huge, but it was mapped in small pages", restart, wanted)
                found = self._cure(fd, path)
            if (fixed := found is not None and found.after > possible) or possible:
                reason = _why(part, size) if fixed else "the page cache holds its text in small pages"
                if part.kind == Kind.LIBRARY and not service and not inside and not self._needed(group, pid, part.path):
                    command = _for_loaded(part.path, found if fixed else None, restart)
                else:
                    command = _command(group, service, restart, fix=fixed, inside=inside)
                return Action(reason, command, found.after if found and fixed else wanted)
            return Action(_why(part, size), RELINK, -(-part.text // size))
        return Action(_why(part, size) if not possible else "", "", possible)

    def _cached(self, fd: int, part: Part) -> bool:
        """Say whether the page cache has all the windows huge that the process has not, of those that are asked for."""
        offsets = [
            mapping.offset + address - mapping.start
            for mapping in part.mappings
            for address in _small(mapping, self._page_size)
        ]
        with measure.huge_pages_allowed():
            return all(measure.measure(fd, offsets[:_ASKED], self._page_size))

    def _needed(self, group: Group, pid: int, path: str) -> bool:
        """Say whether the loader maps the library for the program; else that has loaded it later, as java does."""
        program = group.key.program
        if program not in self._libraries:
            self._libraries[program] = frozenset()
            with suppress(HugealignError, OSError):
                if not mounts.served(statx.identity(f"/proc/{pid}/exe", _HERE)[0], pid):
                    found = libraries.resolve(program).paths
                    self._libraries[program] = frozenset(map(os.path.realpath, found))
        return os.path.realpath(path) in self._libraries[program]

    def _cure(self, fd: int, path: str) -> cure.Cure | None:
        info = os.fstat(fd)
        identity = info.st_dev, info.st_ino, info.st_ctime_ns
        if identity not in self._cures:
            self._cures[identity] = cure.find(path, self._page_size)
        return self._cures[identity]


def _command(group: Group, service: str, restart: str, *, fix: bool, inside: bool) -> str:
    """Return what makes the text of *group* huge: for a service now and after each upgrade, else for a new start."""
    options = "--fix " * fix + "--libs " * (group.key.kind != Kind.PROGRAM)
    if service and not inside:
        return f"hugealign adopt {options}{service} && {restart}"
    name = printable(shlex.quote(os.path.basename(group.key.program)))
    return f"{'in its container, ' * inside}start it with: hugealign run {options}-- {name}"


def _for_loaded(path: str, fixed: cure.Cure | None, restart: str) -> str:
    """Return what makes a library huge that `run` does not find, since the program loads it by itself."""
    warm = f"hugealign warm --replace {printable(shlex.quote(path))}"
    return f"{fixed.command} && {warm}, then {restart}" if fixed else f"{warm}, then {restart}"


def _lacking(part: Part, page_size: int) -> tuple[bool, int]:
    """Rank the parts of processes of a program: a file that was replaced first, then what is not huge."""
    return part.deleted, part.possible(page_size) - part.huge(page_size)


def _small(mapping: Mapping, page_size: int) -> Sequence[int]:
    first = mapping.first_window(page_size)
    return [first + at * page_size for at, state in enumerate(mapping.windows(page_size) or ()) if state != State.HUGE]


def _touched(part: Part, page_size: int) -> bool:
    """Say whether a window that is not huge has a page at all."""
    states = [state for mapping in part.mappings for state in mapping.windows(page_size) or (State.SMALL,)]
    return any(state not in (State.HUGE, State.UNTOUCHED) for state in states)


def _why(part: Part, page_size: int) -> str:
    largest = max(part.mappings, key=lambda mapping: mapping.size)
    return why_none(largest, page_size) if not part.possible(page_size) else "not all of it lies in whole windows"


def _found(pid: int, mapping: Mapping) -> tuple[str, bool]:
    """Return by which path we reach the file of *mapping*, empty if none, and whether only the process sees that."""
    if mounts.served(os.makedev(*mapping.device), pid):
        return "", False
    for path, inside in ((mapping.path, False), (f"/proc/{pid}/root{mapping.path}", True)):
        with suppress(OSError, ValueError):
            if statx.identity(path, _HERE)[1] == mapping.inode:
                return path, inside
    return "", False
