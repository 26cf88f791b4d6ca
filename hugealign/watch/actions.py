"""Find the one action that gains most for the part of a program that is not huge."""

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from hugealign.diagnosis import render
from hugealign.diagnosis.values import Remedy
from hugealign.errors import HugealignError
from hugealign.fixing import remedies
from hugealign.io import mounts
from hugealign.io.regular import opened
from hugealign.io.units import printable
from hugealign.pagecache import measure
from hugealign.process import groups, statx, texts
from hugealign.process.smaps import Mapping
from hugealign.process.texts import Executed
from hugealign.watch import runtimes, staged
from hugealign.watch.parts import CodeKind, CodePart
from hugealign.watch.rows import Group
from hugealign.watch.start import MANAGERS, Start
from hugealign.watch.verdict import DELETED, why_none

_ASKED = 8  # windows of a file to look up in the page cache: each costs a fault
_HERE = -100  # AT_FDCWD
_MEMORY = "/memfd:"  # a file that never had a name (mm/memfd.c), as `hugealign run --how=copy` makes one

#: Device, inode and change time of a file in use.
_Identity = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Action:
    """Why windows are not huge, what to do, and how many windows of all processes could then be huge.

    *start* is set if the action is a restart, and, without a command, if the part is huge thanks to an earlier one.
    """

    reason: str = ""
    command: str = ""
    reachable: int = 0
    start: Start | None = None


def together(actions: Sequence[Action]) -> list[Action]:
    """Return *actions* with one command for all parts of a service or program: each start forgets the one before."""
    starts: dict[tuple[str, bool], Start] = {}
    for start in (action.start for action in actions if action.start):
        known = starts.get(start.whose, start)
        files = tuple(dict.fromkeys((*known.files, *start.files)))
        starts[start.whose] = replace(known, fix=known.fix or start.fix, files=files)
    return [replace(a, command=starts[a.start.whose].command) if a.start and a.command else a for a in actions]


class Actions:
    """Find what to do, and remember facts about files until they change.

    *most* is the number of windows that the processor can hold.
    """

    def __init__(self, page_size: int, most: int) -> None:
        self._page_size = page_size
        self._most = most
        self._edits: dict[_Identity, Remedy | None] = {}
        self._early: dict[str, bool] = {}

    def of(self, group: Group) -> Action:
        """Return what to do about *group*, judged by the process that lacks the most."""
        size = self._page_size
        process, part = max(group.members, key=lambda member: _lacking(member[1], size))
        possible, huge, count = part.possible(size), part.huge(size), len(group.members)
        with suppress(OSError):
            if huge < possible and texts.thp_disabled(process.pid):
                return Action("prctl(PR_SET_THP_DISABLE)", "start it without that", possible * count)
        service = groups.service(texts.control_groups(process.pid))
        if part.kind == CodeKind.CODE:
            return self._code(group, service)
        restart = f"systemctl restart {shlex.quote(service)}" if service else "start it again"
        if part.deleted:
            in_memory = part.path.startswith(_MEMORY)
            if possible and huge == possible:
                return Action("" if in_memory else DELETED, "", possible * count)
            return Action("not all of its copy in memory is huge" if in_memory else DELETED, restart, possible * count)
        if all(m.own for m in part.mappings if m.windows_huge(size) < m.windows_possible(size)) and huge < possible:
            what = f"run: hugealign adapt {shlex.quote(service) if service else _target(group)}"
            return Action("its copy of its own text is on small pages", what, possible * count)
        found = self._file(process, part, service, restart)
        if found.command and found.start and self._too_early(process.exe, service):
            return Action("it starts before hugealign could", "", possible * count)
        return replace(found, reachable=found.reachable * count)

    def _code(self, group: Group, service: str) -> Action:
        size = self._page_size
        possible, huge, reachable = 0, 0, 0
        for process, part in group.members:
            of_files = sum(m.windows_huge(size) for m in process.mappings if not m.without_file)
            now = part.huge(size)
            possible, huge = possible + part.possible(size), huge + now
            reachable += max(now, min(part.touched(size), self._most - of_files))
        name = runtimes.code_name(group.runtime)
        what = runtimes.mend(group.runtime, shlex.quote(service) if service else _target(group), windows=possible > 0)
        if not possible:
            could = sum(part.text // size for _, part in group.members)
            return Action(runtimes.why_none(group.runtime), what, could if what else 0)
        if reachable > huge:
            return Action(f"{name} is on small pages", what, reachable if what else huge)
        return Action("not touched yet, or more than the processor keeps" if huge < possible else "", "", huge)

    def _too_early(self, program: str, service: str) -> bool:
        """Say whether the program is the system's manager, or a service that starts before hugealign could."""
        if os.path.basename(program) in MANAGERS:
            return True
        if service and service not in self._early:
            from hugealign.services import programs as services  # only on machines with services

            self._early[service] = False
            with suppress(HugealignError):
                self._early[service] = services.starts_early(service)
        return self._early.get(service, False)

    def _file(self, process: Executed, part: CodePart, service: str, restart: str) -> Action:
        size = self._page_size
        possible, huge = part.possible(size), part.huge(size)
        largest = max(part.mappings, key=lambda mapping: (mapping.is_file, mapping.size))
        path, inside = _found(process.pid, largest)
        with suppress(HugealignError, OSError):
            if not path:
                return Action("its file cannot be looked at", "", possible)
            copied = part.path in staged.covered(process.pid)
            files = (part.path,) if part.kind == CodeKind.LIBRARY else ()
            start = Start(process.program, service, inside and not copied, copied, files)
            kept = start if copied else None
            with opened(path) as fd:
                if os.fstat(fd).st_ino != largest.inode:  # a link of the process's may have led elsewhere meanwhile
                    return Action("its file cannot be looked at", "", possible)
                meant = measure.windows_meant(fd, size)
                wanted = possible if meant is None else min(meant, possible)
                if possible and huge >= wanted:
                    return Action(reachable=max(wanted, huge), start=kept)
                if huge < possible and self._cached(fd, part):
                    if part.touched(size) == huge:
                        return Action("not touched yet", "", wanted, kept)
                    return Action("the page cache has it huge, but it was mapped in small pages", restart, wanted)
                found = self._edit(fd, path)
            if (fixed := found is not None and (found.after or 0) > possible) or possible:
                reason = _why(part, size) if fixed else "the page cache holds its text in small pages"
                after = (found.after if found and fixed else None) or wanted
                start = replace(start, fix=copied or fixed)
                return Action(reason, start.command, after, start)
            return Action(_why(part, size), render.remedy(remedies.RELINK), -(-part.text // size))
        return Action(_why(part, size) if not possible else "", "", possible)

    def _cached(self, fd: int, part: CodePart) -> bool:
        """Say whether the page cache has huge all the windows that the process lacks, of those that are checked."""
        offsets = (
            mapping.offset + address - mapping.start
            for mapping in part.mappings
            for address in mapping.missing(self._page_size)
        )
        with measure.huge_pages_allowed():
            return all(measure.measure(fd, list(islice(offsets, _ASKED)), self._page_size))

    def _edit(self, fd: int, path: str) -> Remedy | None:
        info = os.fstat(fd)
        identity = info.st_dev, info.st_ino, info.st_ctime_ns
        if identity not in self._edits:
            self._edits[identity] = remedies.edit(path, self._page_size)
        return self._edits[identity]


def _target(group: Group) -> str:
    """Return the name or PID by which `adapt` finds the processes of *group*."""
    (first, _), *others = group.members
    return printable(shlex.quote(os.path.basename(first.exe))) if others else str(first.pid)


def _lacking(part: CodePart, page_size: int) -> tuple[bool, int, int]:
    """Rank the parts of a program's processes: replaced files first, then by windows in use that are not huge."""
    huge = part.huge(page_size)
    return part.deleted, part.touched(page_size) - huge, part.possible(page_size) - huge


def _why(part: CodePart, page_size: int) -> str:
    largest = max(part.mappings, key=lambda mapping: mapping.size)
    return why_none(largest, page_size) if not part.possible(page_size) else "not all of it lies in whole windows"


def _found(pid: int, mapping: Mapping) -> tuple[str, bool]:
    """Return the path by which hugealign reaches the file of *mapping*, or "", and whether only the process sees it."""
    if mounts.served(os.makedev(*mapping.device), pid):
        return "", False
    for whose, path in (("self", mapping.path), (str(pid), f"/proc/{pid}/root{mapping.path}")):
        if mounts.behind_server(mapping.path, whose):
            continue
        with suppress(OSError, ValueError):
            device, inode = statx.identity(path, _HERE)
            if inode == mapping.inode and not mounts.served(device, whose):
                return path, whose != "self"
    return "", False
