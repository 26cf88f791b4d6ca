"""`hugealign enable --all` as functions: put what gains on huge pages on the whole machine, keep it so, and undo it."""

import os
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from hugealign.diagnosis.refusal import DiagnosedError, RefusalError, diagnosed, error_name
from hugealign.diagnosis.values import Diagnosis
from hugealign.errors import HugealignError
from hugealign.io import replacing
from hugealign.io.regular import opened
from hugealign.machine import images, state, units
from hugealign.machine.candidates import Candidates
from hugealign.machine.machine_policy import Policy
from hugealign.machine.plan import COPIES, HOOK, IN_PLACE, MachinePlan, Part, choose, kept
from hugealign.machine.state import Held, State
from hugealign.pagecache import measure
from hugealign.pagecache.warm import WarmOptions, warm
from hugealign.process.machine_samples import sample_machine
from hugealign.run import copies
from hugealign.services import dropins, enable, oci, programs
from hugealign.services.enable import EnableOptions
from hugealign.system import faultcosts, hooks, kernel, textcosts

#: How long to look at the machine, in seconds.
SECONDS = 10.0
_UNUSED = 7 * 24 * 3600  # seconds after which a part is dropped
_MODE = 0o644


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is in force after a look at the machine, and what that changed: *plan* has what is new, and what was left.

    *dropped* are parts that are no longer in force, *failed* those that could not be made.  *fixes* are those found.
    """

    state: State
    plan: MachinePlan
    dropped: tuple[Part, ...] = ()
    failed: tuple[Diagnosis, ...] = ()
    fixes: copies.Fixes = field(default_factory=copies.Fixes)


@dataclass(frozen=True, slots=True)
class HeldNow:
    """A part in force now."""

    held: Held
    windows_huge: int | None
    """How many windows are huge; null unless it is so in place."""

    JSON = "*=held windows_huge"


@dataclass(frozen=True, slots=True)
class MachineNow:
    """What is in force on the machine now."""

    state: State
    huge: Mapping[str, int]
    """How many windows are huge, by the name of each part that is so in place."""

    JSON = "since=state.since looked=state.looked? failure=state.failure? held left=state.left"

    @property
    def held(self) -> "tuple[HeldNow, ...]":
        """All parts."""
        return tuple(HeldNow(one, self.huge.get(one.part.name)) for one in self.state.held)


def in_force() -> MachineNow | None:
    """Return what is in force; None if the machine is not enabled.  Raises HugealignError."""
    known = state.read()
    if known is None:
        return None
    huge = {}
    for one in known.in_place():
        huge[one.part.name] = 0
        for path in one.part.files:
            with suppress(HugealignError, OSError):
                huge[one.part.name] += warm(path, WarmOptions(check=True, explain=False)).huge
    return MachineNow(known, huge)


def look(policy: Policy, seconds: float = SECONDS) -> Outcome:
    """Look at the machine for *seconds*, and return what would be in force, without changing anything.

    Raises HugealignError.
    """
    return _looked(policy, state.read() or State(int(time.time())), seconds)


def enable_all(policy: Policy, words: Sequence[str], seconds: float = SECONDS) -> Outcome:
    """Put what gains on huge pages now, and write the units that keep it so; *words* are the options for these.

    Raises HugealignError, before anything has changed.
    """
    if not os.path.isdir(dropins.PLACE):
        raise DiagnosedError("service.unit-file", file=dropins.PLACE, error="ENOENT")
    command = enable.command()
    with state.alone():
        before = state.read() or State(int(time.time()))
        outcome = _looked(policy, before, seconds) if programs.manager_runs() else Outcome(before, _NOTHING)
        databases = [path for path in units.DATABASES if os.path.exists(path)]
        texts = units.texts(command, words, databases, os.path.dirname(state.path()))
        state.write(before)  # first, so that `hugealign status` finds what a killed run has written
        try:
            _write_units(texts)
        except DiagnosedError:
            if not any(map(os.path.lexists, map(_path, units.NAMES))):
                state.remove()
            raise
        return _applied(outcome, before, policy)


def renew(policy: Policy, seconds: float = SECONDS) -> Outcome:
    """Look again, and put right what has changed: for the timer.  Raises HugealignError; then nothing has changed."""
    with state.alone():
        before = state.read()
        if before is None:
            raise RefusalError("machine.not-enabled")
        return _applied(_looked(policy, before, seconds), before, policy)


def note_failure(error: HugealignError) -> None:
    """Keep that a look ended with *error*, for `hugealign status`; what is in force stays so."""
    with suppress(HugealignError), state.alone():
        if before := state.read():
            state.write(replace(before, looked=int(time.time()), failure=diagnosed("", error).code))


def leave(services: Collection[str]) -> None:
    """Leave *services*, which a person has enabled, out of what is in force: they stay so after `disable_all`.

    Raises HugealignError.
    """
    known = state.read()
    if known and not set(services).isdisjoint(known.services()):
        with state.alone(wait=True):
            if known := state.read():
                held = tuple(one for one in known.held if one.part.how != COPIES or one.part.name not in services)
                state.write(replace(known, held=held))


def disable_all() -> list[str]:
    """Undo all of it, and return what was removed: the names of units and of services.  Raises HugealignError."""
    if programs.manager_runs() and os.path.exists(_path(units.LOOK)):
        programs.systemctl("stop", "--", units.LOOK)  # what it has begun is undone with the rest
    with state.alone():
        known = None
        with suppress(DiagnosedError):  # damaged: services that are enabled stay so, and `hugealign status` lists them
            known = state.read()
        paths = [path for path in map(_path, units.NAMES) if os.path.lexists(path)]
        if known is None and not paths and not hooks.of_machine():
            raise RefusalError("machine.not-enabled")
        removed = [unit for unit in (known.services() if known else ()) if _disable(unit)]
        try:
            for path in (*map(units.link, units.WANTED), *paths):
                _unlink(path)
        except OSError as error:
            raise DiagnosedError("service.unit-file", file=path, error=error_name(error)) from error
        removed += map(os.path.basename, (*paths, *oci.cover_none()))
        oci.remove_empty(known.made if known else ())
        oci.forget([path for one in (known.hooked() if known else ()) for path in one.part.files])
        state.remove()
        if programs.manager_runs():
            for name in (units.TIMER, units.PACKAGES, units.HOLD):
                with suppress(HugealignError):  # it is not loaded
                    programs.systemctl("stop", "--", name)
            programs.systemctl("daemon-reload")
        return removed


def _disable(unit: str) -> bool:
    """Disable the service *unit*, and return whether it was enabled.  Raises HugealignError."""
    try:
        return bool(enable.disable(unit))
    except RefusalError:
        return False


_NOTHING = MachinePlan((), ())


def _looked(policy: Policy, before: State, seconds: float) -> Outcome:
    """Return what follows from a look at the machine; nothing is changed."""
    costs = textcosts.known() or faultcosts.known()
    covered = {path for one in before.hooked() for path in one.part.files}
    samples = images.on_machine(sample_machine(seconds), covered)
    now = int(time.time())
    in_use = {path for use in samples.uses for path in use.files} | {use.owner for use in samples.uses}
    held = [replace(one, used=now if one.part.name in in_use else min(_used(one), now)) for one in before.held]
    stay = [_as_now(one) for one in held if now - one.used < _UNUSED and _is_there(one.part)]
    stay = [one for one in stay if one.part.windows]
    wanted = {part.name for part in kept([one.part for one in stay], policy)}
    stay = [one for one in stay if one.part.name in wanted]
    fixes = copies.Fixes()
    found = Candidates(samples, costs, policy, {one.part.name: one.part.how for one in stay}, fixes).find()
    chosen = choose(found.parts, policy, [one.part for one in stay])
    left = (*chosen.left, *found.left)
    counts = Counter(diagnosis.code for diagnosis in left)
    after = State(before.since, tuple(stay), now, "", dict(sorted(counts.items())), before.made)
    names = {one.part.name for one in stay}
    dropped = tuple(one.part for one in before.held if one.part.name not in names)
    return Outcome(after, MachinePlan(chosen.take, left), dropped, fixes=fixes)


def _applied(outcome: Outcome, before: State, policy: Policy) -> Outcome:
    """Make it so: first what is dropped, then what is new; return what is in force then."""
    now = int(time.time())
    held, failed = list(outcome.state.held), []
    for one in before.held:
        if one.part.how == COPIES and one.part in outcome.dropped:
            try:
                _disable(one.part.name)
            except HugealignError as error:
                held.append(one)
                failed.append(diagnosed(one.part.name, error))
    # Written before it is done: what a killed run has begun is found by `disable --all`.
    intended = [*held, *(Held(part, now, now, _identities(part)) for part in outcome.plan.take)]
    made = before.made or (oci.missing() if any(one.part.how == HOOK for one in intended) else ())
    state.write(replace(outcome.state, held=tuple(intended), made=made))
    for part in outcome.plan.take:
        try:
            if part.how == COPIES:
                enable.enable(part.name, EnableOptions(part.files, fix=policy.fix), outcome.fixes)
            held.append(Held(part, now, now, _identities(part)))
        except HugealignError as error:
            failed.append(diagnosed(part.name, error))
    held = _hooked(held, policy, failed)
    if not any(one.part.how == HOOK for one in held):
        made = oci.remove_empty(made)
    oci.forget([path for part in outcome.dropped if part.how == HOOK for path in part.files])
    after = replace(outcome.state, held=tuple(held), failure=failed[0].code if failed else "", made=made)
    state.write(after)
    changed = _held_in_place(after) != _held_in_place(before)
    if programs.manager_runs():
        programs.systemctl("daemon-reload")
        programs.systemctl("start", "--no-block", "--", *(name for name in units.WANTED if os.path.exists(_path(name))))
        if changed:
            programs.systemctl("restart", "--no-block", "--", units.HOLD)
    return replace(outcome, state=after, failed=tuple(failed))


def _hooked(held: Sequence[Held], policy: Policy, failed: list[Diagnosis]) -> list[Held]:
    """Let the hook cover the parts of *held* that are for it, and make their copies; return *held* without what failed.

    What *failed* is added to that.
    """
    wanted = [one for one in held if one.part.how == HOOK]
    kept = [one for one in held if one.part.how != HOOK]
    try:
        if wanted:
            oci.cover_all(enable.command(), state.path(), policy.fix)
        else:
            oci.cover_none()
    except HugealignError as error:
        failed.append(diagnosed(hooks.MACHINE, error))
        return kept
    for one in wanted:
        try:
            for path in one.part.files:
                oci.prepare(path, one.identities, policy.fix)
            kept.append(one)
        except (HugealignError, OSError) as error:
            failed.append(diagnosed(one.part.name, error))
    return kept


def _used(one: Held) -> int:
    """Return when the programs of a part were last seen in use, or its file: a look sees little of a day."""
    times = [one.used]
    for path in one.part.files:
        with suppress(OSError):  # the kernel notes a use once a day (relatime in mount(8))
            times.append(int(os.stat(path).st_atime))
    return max(times)


def _is_there(part: Part) -> bool:
    """Return whether what *part* is made of still exists: a service that is enabled, or its file."""
    if part.how != COPIES:
        return all(map(os.path.exists, part.files))
    return all(os.path.lexists(path) for path in dropins.paths(part.name)[3:4]) and programs.exists(part.name)


def _identities(part: Part) -> tuple[str, ...]:
    result = []
    for path in part.files:
        with suppress(OSError):
            result.append(copies.identity(os.stat(path), fixed=False))
    return tuple(result)


def _as_now(one: Held) -> Held:
    """Return a part with what its files are now; one in place has as many windows as they have, 0 if none is left."""
    now = _identities(one.part)
    if now == one.identities or one.part.how != IN_PLACE:
        return replace(one, identities=now)
    windows, page_size = 0, kernel.huge_page_size()
    for path in one.part.files:
        with suppress(HugealignError, OSError), opened(path) as fd:
            windows += len(measure.text_windows(fd))
    return replace(one, part=replace(one.part, windows=windows, memory=windows * page_size), identities=now)


def _held_in_place(known: State) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the files that are held in place, and their states."""
    return [(one.part.files, one.identities) for one in known.in_place()]


def _path(name: str) -> str:
    return f"{dropins.PLACE}/{name}"


def _write_units(texts: dict[str, str]) -> None:
    """Write the units and the links by which they start.  Raises DiagnosedError; then none is left."""
    written: list[str] = []
    try:
        for path, text in texts.items():
            _check_ours(path)
            replacing.write(path, text.encode(), _MODE)
            written.append(path)
        for name in units.WANTED:
            if _path(name) in texts:
                path = units.link(name)
                _unlink(path)
                os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
                os.symlink(_path(name), path)
                written.append(path)
    except OSError as error:
        for path in written:
            _unlink(path)
        raise DiagnosedError("service.unit-file", file=path, error=error_name(error)) from error


def _check_ours(path: str) -> None:
    """Raise RefusalError if another program made the file at *path*."""
    with suppress(FileNotFoundError), open(path, "rb") as file:
        if not file.read(len(units.MARK)).decode(errors="replace").startswith(units.MARK):
            raise RefusalError("service.foreign-file", file=path)


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
    if os.path.dirname(path) != dropins.PLACE:
        with suppress(OSError):  # others have links in it
            os.rmdir(os.path.dirname(path))
