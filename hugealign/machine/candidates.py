"""From how the machine uses text to the parts of it that could be huge, with what each saves."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from hugealign.diagnosis.refusal import diagnosed
from hugealign.diagnosis.values import Diagnosis
from hugealign.errors import HugealignError
from hugealign.io.regular import contains, opened
from hugealign.machine import images, plan
from hugealign.machine.machine_policy import Policy
from hugealign.machine.plan import BOOT, CONTAINER_STARTS, COPIES, HOOK, IN_PLACE, NOW, RESTART, Part
from hugealign.pagecache import measure, warming
from hugealign.process import processes
from hugealign.process.containers import Origin
from hugealign.process.machine_samples import CONTAINER, MachineSamples, Use
from hugealign.run import copies
from hugealign.services import dropins, enable, files, programs
from hugealign.services.enable import EnableOptions
from hugealign.system import kernel, namespace, saving
from hugealign.system.saving import Faults, Saving
from hugealign.system.textcosts import TextCosts

_WORTH = 0.02  # share of a service's page faults from which a file of it is worth a copy
_SHOWN = 0.01  # share of one processor from which a program that saves nothing is named
_WINDOW = 9  # log2 of the pages in a window of 2 MiB
#: What a program calls that opens sessions for users, who may mount and replace files there (pam_open_session(3)).
_SESSIONS = (b"\0pam_open_session\0",)
_OURS = "hugealign-"


@dataclass(frozen=True, slots=True)
class Found:
    """The *parts* that could be huge, and why others of the text in use are *left*."""

    parts: tuple[Part, ...]
    left: tuple[Diagnosis, ...]


@dataclass(slots=True)
class _File:
    """A file of the machine, and the *uses* of it."""

    path: str
    uses: list[Use] = field(default_factory=list)


class Candidates:
    """Looks for the parts of a machine that could be huge."""

    def __init__(
        self,
        samples: MachineSamples,
        costs: TextCosts | None,
        policy: Policy,
        taken: Mapping[str, str] | None = None,
        fixes: copies.Fixes | None = None,
    ) -> None:
        """Look at *samples*; *taken* says how what is in force is huge, by name; *fixes* get what is found of it.

        Without *costs*, no saving is known.
        """
        self._samples = samples
        self._costs = costs
        self._policy = policy
        self._taken = dict(taken or {})
        self._fixes = fixes or copies.Fixes()
        self._keeping: dict[int, bool] = {}

    def find(self) -> Found:
        """Return what is found: services first, then files that others use."""
        parts: list[Part] = []
        left: list[Diagnosis] = []
        uses = [use for use in self._samples.uses if not use.owner.startswith(CONTAINER)]
        of_services: set[tuple[str, str]] = set()
        for unit in sorted({use.owner for use in uses if use.owner} - set(self._taken)):
            of_unit = [use for use in uses if use.owner == unit]
            outcome = self._service(unit, of_unit)
            if isinstance(outcome, Part):
                parts.append(outcome)
                of_services |= {(unit, file) for file in outcome.files}
            elif outcome:
                left.append(outcome)
        for file in self._files(self._samples.uses):
            if file.path in self._taken:
                continue
            file.uses = [use for use in file.uses if (use.owner, file.path) not in of_services]
            outcome = self._file(file)
            if isinstance(outcome, Part):
                parts.append(outcome)
            elif outcome:
                left.append(outcome)
        told = {**dict.fromkeys(diagnosis.subject for diagnosis in left), **{part.name: part.how for part in parts}}
        left += self._containers({**told, **self._taken})
        return Found(tuple(parts), tuple(left))

    def _containers(self, told: Mapping[str, str | None]) -> Iterator[Diagnosis]:
        """Yield why the text of each container that could save something is left.

        *told* are files with an answer: how they become huge, None for those that do not.
        """
        uses = [use for use in self._samples.uses if use.owner.startswith(CONTAINER)]
        for container in sorted({use.owner for use in uses}):
            inside = [use for use in uses if use.owner == container]
            paths = {path for use in inside for path, _ in (*use.pages, *use.faults)}
            name = container.removeprefix(CONTAINER)
            if not self._could(inside, paths):
                if little := self._little(name, inside, paths):
                    yield little
                continue
            origin = self._samples.origins.get(container)
            answered = {path for use in inside for path in use.files if path in told}
            if not any(told[path] == IN_PLACE or self._reaches(origin, path) for path in answered):
                yield self._left(origin, {path for use in inside for path in use.files}).about(name)

    def _reaches(self, origin: Origin | None, path: str) -> bool:
        """Return whether the hook covers the file at *path* in a container with that *origin*."""
        if not origin or (origin.left and origin.left.code != "policy.may-replace"):
            return False
        return self._policy.includes(path) or (not origin.left and images.is_closed(origin.layers, path))

    def _left(self, origin: Origin | None, paths: Iterable[str]) -> Diagnosis:
        """Return why the hook covers none of the files at *paths* in a container with that *origin*."""
        if origin and origin.left:
            return origin.left
        replaceable = origin and any(not images.is_closed(origin.layers, path) for path in paths)
        return Diagnosis("policy.may-replace" if replaceable else "policy.container", "", {})

    def _files(self, uses: Sequence[Use]) -> list[_File]:
        """Return the files of *uses* that the machine has under the same name."""
        by_path: dict[str, _File] = {}
        for use in uses:
            for path, inode in use.files.items():
                with suppress(OSError, ValueError):
                    if os.stat(path).st_ino == inode:
                        by_path.setdefault(path, _File(path)).uses.append(use)
        return [by_path[path] for path in sorted(by_path)]

    def _could(self, uses: Sequence[Use], paths: Iterable[str]) -> bool:
        """Return whether huge text of *paths* could save *uses* enough, if all of it could be huge."""
        wanted = set(paths)
        if self._policy.everything:
            return any(page[0] in wanted for use in uses for page in (*use.pages, *use.faults))
        if self._costs is None:
            return False
        faults = sum(count for use in uses for (path, _), count in use.faults.items() if path in wanted)
        seconds = sum(use.seconds for use in uses)
        saved = saving.of_faults(self._costs, Faults(faults, 0, seconds, 0))
        return plan.gains(seconds / self._samples.seconds, Saving(0, saved.high, saved.high), self._policy)

    def _little(self, name: str, uses: Sequence[Use], paths: Iterable[str]) -> Diagnosis | None:
        """Return that *uses* of *paths* would save too little if all of it were huge; None for what hardly runs."""
        seconds = sum(use.seconds for use in uses)
        share = seconds / self._samples.seconds
        if share < _SHOWN or self._costs is None:
            return None
        saved, most = self._saving(uses, {path: set(_pages(uses, path)) for path in paths}, seconds)
        return plan.little(Part(name, COPIES, (), 0, 0, share, saved, RESTART, most), self._policy)

    def _file(self, file: _File) -> Part | Diagnosis | None:
        """Return the part that *file* is, in place or by the hook; or why it is left, None if it gains nothing."""
        if not self._could(file.uses, [file.path]) and not self._policy.includes(file.path):
            own = [use for use in file.uses if use.program == file.path and not use.owner]  # others' are named by owner
            return self._little(file.path, own, [file.path])
        try:
            with opened(file.path) as fd:
                hooked = self._hooked(file)
                origin = copies.source(file.path, fd, self._fixes if hooked and self._policy.fix else None)
                page_size = kernel.huge_page_size()
                if not origin and hooked and self._policy.fix:
                    return Diagnosis("text.no-window", file.path, {"page_size": page_size})
                if not origin:
                    return Diagnosis("policy.no-window", file.path, {})
                inside = copies.pages_inside(origin, _pages(file.uses, file.path))
                if not origin.output and self._keeps(file.path, origin.info):
                    how, memory = IN_PLACE, origin.windows * page_size
                    when = BOOT if self._is_mapped(file, origin.info) else NOW
                elif hooked:
                    copies.check(origin)
                    if namespace.privileged(fd):
                        return Diagnosis("copy.privileges", file.path, {})
                    how, memory, when = HOOK, -(-origin.size // page_size) * page_size, CONTAINER_STARTS
                elif any(use.owner.startswith(CONTAINER) for use in file.uses):
                    return None  # the container says why
                else:
                    return Diagnosis("policy.no-place", file.path, {})
        except (HugealignError, OSError) as error:
            return diagnosed(file.path, error)
        seconds = sum(use.seconds for use in file.uses)
        saved, most = self._saving(file.uses, {file.path: inside}, seconds)
        share = seconds / self._samples.seconds
        return Part(file.path, how, (file.path,), origin.windows, memory, share, saved, when, most)

    def _hooked(self, file: _File) -> bool:
        """Return whether the hook covers *file* in a container that it is used in."""
        return any(self._reaches(self._samples.origins.get(use.owner), file.path) for use in file.uses)

    def _is_mapped(self, file: _File, info: os.stat_result) -> bool:
        """Return whether a process maps *file* now, in a container as far as that ran before."""
        inside = [use for use in file.uses if use.owner.startswith(CONTAINER)]
        return any(not use.starts for use in inside) or bool(processes.users(info, file.path))

    def _service(self, unit: str, uses: Sequence[Use]) -> Part | Diagnosis | None:
        """Return the part that the service *unit* is, from copies; or why it is left, None if nothing is to be said."""
        if unit.startswith(_OURS) or any(os.path.lexists(path) for path in dropins.paths(unit)):
            return None
        paths = {path for use in uses for path in use.files}
        included = self._policy.includes(unit)
        if not self._could(uses, paths) and not included:
            return self._little(unit, uses, paths)
        chosen, inside, windows = self._worth_copies(uses, paths, every=included or self._policy.everything)
        if not chosen:
            return None
        seconds = sum(use.seconds for use in uses)
        share = seconds / self._samples.seconds
        saved, most = self._saving(uses, inside, seconds)
        part = Part(unit, COPIES, tuple(chosen), sum(windows.values()), 0, share, saved, RESTART, most)
        if not plan.gains(share, saved, self._policy) and not included:
            return plan.little(part, self._policy)
        try:
            if not included and (unsafe := _unsafe(unit, uses)):
                return unsafe
            planned = enable.plan(unit, EnableOptions(chosen, fix=self._policy.fix), self._fixes)
        except (HugealignError, OSError) as error:
            return diagnosed(unit, error)
        if planned.left and not included:
            return planned.left[0]
        return replace(part, memory=planned.memory)

    def _worth_copies(
        self, uses: Sequence[Use], paths: Iterable[str], *, every: bool
    ) -> tuple[list[str], dict[str, set[int]], dict[str, int]]:
        """Return those of *paths* that only a copy makes huge and that are worth one, or *every* one.

        With the pages of each that are in windows, and the number of its windows.
        """
        faults = Counter(dict.fromkeys(paths, 0))
        for use in uses:
            for (path, _), count in use.faults.items():
                if path in faults:
                    faults[path] += count
        most = faults.total()
        chosen, inside, windows = [], {}, {}
        for path, count in sorted(faults.items(), key=lambda item: (-item[1], item[0])):
            if count <= _WORTH * most and not every:
                continue
            with suppress(HugealignError, OSError), opened(path) as fd:
                origin = copies.source(path, fd, self._fixes if self._policy.fix else None)
                if origin and (origin.output or not self._keeps(path, origin.info)):
                    copies.check(origin)
                    chosen.append(path)
                    inside[path] = copies.pages_inside(origin, _pages(uses, path))
                    windows[path] = origin.windows
        return chosen, inside, windows

    def _keeps(self, path: str, info: os.stat_result) -> bool:
        """Return whether the file system of *path* keeps huge pages: tried with a new file, not with this one."""
        if info.st_dev not in self._keeping:
            self._keeping[info.st_dev] = False
            with suppress(HugealignError, OSError), measure.huge_pages_allowed():
                self._keeping[info.st_dev] = warming.trial(os.path.dirname(path)) == 1
        return self._keeping[info.st_dev]

    def _saving(self, uses: Sequence[Use], inside: dict[str, set[int]], seconds: float) -> tuple[Saving, float]:
        """Return what *uses*, which take *seconds*, save of page faults if the pages *inside* windows become huge.

        And the most that they can save with page walks, which is only a bound; 1 if that is not known.
        """
        if self._costs is None:
            return saving.NOTHING, 1.0
        small = huge = 0
        for path, pages in inside.items():
            concerned = [use for use in uses if path in use.files]
            processes = sum(max(use.starts, 1) for use in concerned)
            by_window: Counter[int] = Counter()
            for use in concerned:
                for (at, page), count in use.faults.items():
                    if at == path and page in pages:
                        by_window[page >> _WINDOW] += count
            small += by_window.total()
            huge += sum(min(count, processes) for count in by_window.values())
        sampled = sum(n for use in uses for (at, page), n in use.pages.items() if page in inside.get(at, ()))
        total = sum(use.pages.total() for use in uses)
        touched = len({key for use in uses for key in use.pages})
        beyond = sampled / total if total and touched > self._costs.reach > 0 else 0.0
        walks = saving.of_samples(self._costs, sampled / total if total else 0.0, beyond)
        faults = saving.of_faults(self._costs, Faults(small, min(huge, small), seconds, 0))
        return faults, (faults + walks).high if self._costs.points else 1.0


def _pages(uses: Iterable[Use], path: str) -> Iterator[int]:
    seen = (page for use in uses for (at, page) in (*use.pages, *use.faults) if at == path)
    return iter(set(seen))


def _unsafe(unit: str, uses: Sequence[Use]) -> Diagnosis | None:
    """Return why what the service *unit* runs may mount or replace files for others; None if nothing says so.

    In a mount namespace of its own, which copies need, its mounts would not be seen, and a file that has a copy cannot
    be replaced.
    """
    service = programs.query(unit, named=True)
    seen = files.seen_by(service)
    own = {file.found.target for file in files.programs(service, seen, (), loaded=False)}
    for use in uses:
        if use.program in own and contains(use.program, _SESSIONS):
            return Diagnosis("policy.sessions", unit, {"program": use.program})
    for use in uses:
        if use.root and use.program not in own and not files.is_starter(use.program):
            return Diagnosis("policy.runs-as-root", unit, {"program": use.program})
    return None
