"""`hugealign status` as functions: find what hugealign has changed on this machine, and undo it.

Most changes can be seen: units and hooks by what is in them, stores by their mounts.  Only files that were fixed or
replaced come from the journal (`hugealign.system.journal`), which each file is held against: by its path at that time,
not through a link that its owner has put there since.
"""

import glob
import os
import shlex
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from hugealign.diagnosis.refusal import DiagnosedError, RefusalError, diagnosed, error_name
from hugealign.diagnosis.values import ROOT, Diagnosis, Remedy
from hugealign.elf.fixrecord import reader, recorded
from hugealign.elf.image import read_image
from hugealign.errors import HugealignError, MalformedElfError, NotElfError
from hugealign.fixing.fix import FixOptions, fix
from hugealign.io import mounts, places, resources
from hugealign.io.descriptors import using
from hugealign.io.regular import FileError, opened
from hugealign.machine import machine, state
from hugealign.machine.machine import MachineNow
from hugealign.pagecache import measure
from hugealign.pagecache.warm import cool
from hugealign.records import Record
from hugealign.run import store
from hugealign.run.store import StoredCopy
from hugealign.services import dropins, enable, oci, programs
from hugealign.system import hooks, journal, namespace
from hugealign.system.journal import Entry

#: The mark in the first lines of our examples that can have comments.
EXAMPLE = "`hugealign status --undo` removes it"
#: Where containerd is configured, and our examples for apt.
_CONTAINERD = "/etc/containerd/config.toml"
_FOR_APT = ("/etc/apt/apt.conf.d/80hugealign", "/usr/local/sbin/hugealign-refix")
_LIMIT = 1 << 20  # bytes of a configuration
_HEAD = 256  # bytes of a file in which a mark stands


class Change(Record):
    """A change: the code of its *diagnosis* is one of KINDS, the subject a path or the name of a service.

    The remedy is the command that undoes it, or says what a person has to do.  *time* is when it was made, in seconds
    since 1970, 0 if that is not known.  *copies* are those in a store, and *machine* is what is in force on the whole
    machine.
    """

    diagnosis: Diagnosis
    time: int = 0
    copies: Sequence[StoredCopy] = ()
    machine: MachineNow | None = None

    @property
    def subject(self) -> str:
        """What was changed."""
        return self.diagnosis.subject

    @property
    def undoable(self) -> bool:
        """Whether a command undoes it."""
        return bool(self.diagnosis.remedy and self.diagnosis.remedy.argv)


class UnreadableError(DiagnosedError):
    """A file that may say what was changed cannot be read."""


class Undone(Record):
    """What became of a change that was to be undone."""

    change: Change
    failure: Exception | None = None
    """Why it was not undone."""

    @property
    def done(self) -> bool:
        """Whether nothing is left of it; if not, it failed or a person has to act."""
        return self.change.undoable and self.failure is None


def find(named: Sequence[str] = ()) -> tuple[list[Change], list[tuple[str, Exception]]]:
    """Return the changes, in the order in which they can be undone, and what could not be read, with the reason.

    With *named*, return only these: services, paths that were changed, files that have copies, and stores.  Entries
    of the journal that are out of date are removed.
    """
    changes: list[Change] = []
    errors: dict[str, Exception] = {}
    for code, (seen, _) in KINDS.items():
        try:
            changes += seen()
        except UnreadableError as error:
            errors[error.diagnosis.subject] = error
        except (OSError, HugealignError) as error:
            errors[os.fsdecode(getattr(error, "filename", None) or code)] = error
    if named:
        chosen = {what: list(_named(changes, what)) for what in named}
        errors |= {what: RefusalError("machine.unchanged") for what in named if not chosen[what]}
        once = {id(change): change for each in chosen.values() for change in each}
        changes = sorted(once.values(), key=lambda change: [*KINDS].index(change.diagnosis.code))
    return changes, list(errors.items())


def _named(changes: Sequence[Change], what: str) -> Iterator[Change]:
    """Yield the *changes* that *what* names; of a store, only the copies that it names."""
    path = os.path.realpath(what)
    for change in changes:
        copies = [copy for copy in change.copies if copy.path == path]
        if change.subject in (what, f"{what}.service", path):
            yield change
        elif copies:
            yield _store(change.subject, copies)
    # A store on a file system that others mounted is found by its name alone.
    if os.path.ismount(path) and path not in [change.subject for change in changes] and (there := store.entries(path)):
        yield _store(path, there)


def undo(change: Change) -> Undone:
    """Undo *change*, unless a person has to."""
    if not change.undoable:
        return Undone(change)
    try:
        KINDS[change.diagnosis.code][1](change)
    except (OSError, HugealignError) as error:
        return Undone(change, error)
    return Undone(change)


def _change(code: str, subject: str, facts: Mapping[str, int | str], remedy: Remedy, **fields: Any) -> Change:
    return Change(Diagnosis(code, subject, facts, remedy), **fields)


def _run(*words: str) -> Remedy:
    """Return the remedy that runs *words*, as root if we are not."""
    return Remedy("undo", words, ROOT if os.geteuid() else "")


def _machine() -> Iterator[Change]:
    there = machine.in_force()
    if there is not None:
        facts = {"parts": len(there.state.held), "size": there.state.memory}
        undo_all = _run("hugealign", "disable", "--all")
        yield _change("change.machine", state.path(), facts, undo_all, time=there.state.since, machine=there)


def _services() -> Iterator[Change]:
    names = {os.path.basename(path) for path in _units(f"{dropins.helper('')}*.service", dropins.MARK)}
    units = {name.removeprefix(dropins.helper("")).replace("\\x40", "@") for name in names}
    drop_ins = _units("*.d/hugealign.conf", dropins.MARK)
    units |= {os.path.basename(os.path.dirname(path)).removesuffix(".d") for path in drop_ins}
    known = None
    with suppress(HugealignError):
        known = state.read()  # a service of the whole machine is undone with it
    for unit in sorted(units.difference(known.services() if known else ())):
        yield _change("change.service", unit, {}, _run("hugealign", "disable", unit))


def _units(pattern: str, mark: str) -> Iterator[str]:
    """Yield the units and drop-ins that match *pattern* and have *mark*."""
    for path in sorted(glob.glob(f"{dropins.PLACE}/{pattern}")):
        if mark in _text(path, _HEAD):
            yield path


def _text(path: str, limit: int = _LIMIT) -> str:
    """Return the beginning of the file at *path*; empty if it is not a regular file.  Raises UnreadableError."""
    try:
        return hooks.text(path, limit)
    except FileError as error:
        raise UnreadableError.of(diagnosed(path, error)) from error


def _hooks() -> Iterator[Change]:
    places = hooks.looked_in()
    for path in hooks.files():
        if hooks.is_ours(_parsed(path).get("hook")):
            unread = "" if os.path.dirname(path) in places else ":".join(places)
            facts = {"places": unread, "said": hooks.said()}
            yield _change("change.hook", path, facts, _run("rm", "--", path))


def _runtimes() -> Iterator[Change]:
    try:
        configuration = tomllib.loads(_text(_CONTAINERD))
    except (ValueError, RecursionError):
        return
    for runtime, specification in _specifications("", configuration):
        if hooks.starts_ours(_parsed(specification)):
            facts = {"runtime": runtime, "specification": specification}
            yield _change("change.runtime", _CONTAINERD, facts, Remedy("remove-runtime"))


def _specifications(name: str, table: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the runtimes in a *table* of containerd's configuration, with the paths of their specifications."""
    for key, value in table.items():
        if isinstance(value, dict) and depth < 16:
            yield from _specifications(key, value, depth + 1)
        elif key == "base_runtime_spec" and isinstance(value, str) and "\0" not in value and value:
            yield name, value


def _parsed(path: str) -> dict[str, Any]:
    """Return the object in the JSON file at *path*, an empty one for anything else.  Raises UnreadableError."""
    try:
        return hooks.parsed(path)
    except FileError as error:
        raise UnreadableError.of(diagnosed(path, error)) from error


def _remove(change: Change) -> None:
    os.unlink(change.subject)
    hooks.forget()


def _examples() -> Iterator[Change]:
    for pattern in ("*.timer", "*.service"):  # a timer first: it starts its service again
        for path in _units(pattern, EXAMPLE):
            words = shlex.quote(os.path.basename(path)), shlex.quote(path)
            remove = _run("sh", "-c", "systemctl disable --now {} && rm -- {}".format(*words))
            yield _change("change.example", path, {}, remove)
    for path in (*_units("*.d/*.conf", EXAMPLE), *_FOR_APT):
        if EXAMPLE in _text(path, _HEAD):
            yield _change("change.example", path, {}, _run("rm", "--", path))


def _remove_example(change: Change) -> None:
    path, name = change.subject, os.path.basename(change.subject)
    is_unit = path.startswith(f"{dropins.PLACE}/")
    if name.endswith((".timer", ".service")) and programs.manager_runs():
        programs.systemctl("disable", "--now", "--", name)
    os.unlink(path)
    if is_unit:
        for link in glob.glob(f"{dropins.PLACE}/*.wants/{glob.escape(name)}"):
            os.unlink(link)
        if os.path.dirname(path) != dropins.PLACE:
            with suppress(OSError):  # others have files in it
                os.rmdir(os.path.dirname(path))
        if programs.manager_runs():
            programs.systemctl("daemon-reload")


def _stores() -> Iterator[Change]:
    ours = [mounts.text(m.place) for m in mounts.seen() if _is_store(m)]
    for place in dict.fromkeys((*ours, store.DEFAULT, oci.STORE)):
        try:
            there = store.entries(place)
            if there or place in ours:
                yield _store(place, there)
        except OSError as error:  # the containers' store is root's alone
            if place in ours:
                yield _change("change.store", place, {"unseen": error_name(error)}, _undoing(place))


def _store(place: str, there: Sequence[StoredCopy]) -> Change:
    sizes = {copy.identity: copy.size for copy in there}
    facts = {"copies": len(sizes), "size": sum(sizes.values())}
    return _change("change.store", place, facts, _undoing(place), copies=there)


def _undoing(place: str) -> Remedy:
    return _run("hugealign", "status", "--undo", place)


def _is_store(mount: mounts.Mount) -> bool:
    return mount.kind == b"tmpfs" and mount.source == namespace.SOURCE.encode()


def _drop(change: Change) -> None:
    place = change.subject
    store.drop([copy.path for copy in change.copies], place)
    if any(_is_store(m) and mounts.text(m.place) == place for m in mounts.seen()) and not store.entries(place):
        raise DiagnosedError("store.not-removed", others=store.others(place))


def _fix_of(entry: Entry) -> Mapping[str, int | str] | None:
    """Return the facts of a fixed file; None if it no longer is one."""
    with opened(places.real(entry.path)) as fd:
        record = recorded(reader(fd), read_image(fd))
    return {"level": record.level} if record else None


def _restore(change: Change) -> None:
    fix(places.real(change.subject), FixOptions(undo=True, in_place=True, one_name=True))


def _huge_of(entry: Entry) -> Mapping[str, int | str] | None:
    """Return the facts of a file that a warm copy replaced; None if it is another file, or has no huge window."""
    file = places.real(entry.path)
    now = journal.file_state(file)
    if now[1:2] == entry.state[1:2] or now[2:] != entry.state[2:]:  # the old file, or another
        return None
    with measure.huge_pages_allowed(), opened(file) as fd:
        offsets = measure.text_windows(fd)
        huge = sum(measure.measure(fd, offsets))
    return {"windows_huge": huge, "windows": len(offsets)} if huge else None


def _cool(change: Change) -> None:
    diagnosis = cool(places.real(change.subject)).diagnosis
    if diagnosis:
        raise DiagnosedError.of(diagnosis)


def _journaled(kind: str, command: str, look: Callable[[Entry], Mapping[str, int | str] | None]) -> Iterator[Change]:
    """Yield the files of one *kind* that *look* still finds changed; take the others out of the journal.

    Raises UnreadableError.
    """
    gone = set()
    try:
        entries = journal.entries()
    except (OSError, HugealignError) as error:
        raise UnreadableError.of(diagnosed(journal.path(), error)) from error
    for entry in entries:
        if entry.change != kind:
            continue
        facts = _looked(entry, look)
        if facts is None:
            gone.add(entry)
        else:
            undoing = Remedy("undo", ("hugealign", command, "--undo", entry.path))
            yield _change(f"change.{kind}", entry.path, facts, undoing, time=entry.time)
    with suppress(OSError, HugealignError):  # no journal, or it cannot be written
        # Look again, now that no other process is at work: what was about to be changed may have been changed since.
        journal.prune(lambda entry: entry not in gone or _looked(entry, look) is not None)


def _looked(entry: Entry, look: Callable[[Entry], Mapping[str, int | str] | None]) -> Mapping[str, int | str] | None:
    """Return what *look* finds, or why it cannot look."""
    if mounts.behind_server(entry.path):  # which may never answer
        return {"unseen": "server"}
    try:
        return look(entry)
    except NotElfError:
        return None
    except (FileError, MalformedElfError, OSError) as error:
        why = diagnosed(entry.path, error)
        return {"unseen": str(why.facts.get("error") or why.code)} if os.path.lexists(entry.path) else None


def _caches() -> Iterator[Change]:
    place = resources.cache()
    sizes = [os.lstat(os.path.join(at, name)).st_size for at, _, names in os.walk(place) for name in names]
    if os.path.isdir(place):
        facts = {"files": len(sizes), "size": sum(sizes)}
        yield _change("change.cache", place, facts, Remedy("undo", ("rm", "-r", "--", place)))


def _remove_cache(change: Change) -> None:
    with using(os.open(change.subject, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)) as fd:
        resources.check_directory(fd, change.subject)
    shutil.rmtree(change.subject)


#: The kinds of changes in the order of their undoing: those that would stage, fix or warm again come first.
KINDS: dict[str, tuple[Callable[[], Iterator[Change]], Callable[[Change], object]]] = {
    "change.machine": (_machine, lambda _: machine.disable_all()),
    "change.service": (_services, lambda change: enable.disable(change.subject)),
    "change.hook": (_hooks, _remove),
    "change.runtime": (_runtimes, _remove),
    "change.example": (_examples, _remove_example),
    "change.store": (_stores, _drop),
    "change.fixed": (lambda: _journaled(journal.FIXED, "fix", _fix_of), _restore),
    "change.replaced": (lambda: _journaled(journal.REPLACED, "warm", _huge_of), _cool),
    "change.cache": (_caches, _remove_cache),
}
