"""`hugealign enable` as functions: let a systemd service run from huge text, and undo that."""

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hugealign.diagnosis.documents import Failed
from hugealign.diagnosis.refusal import DiagnosedError, RefusalError, diagnosed, error_name
from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.errors import HugealignError
from hugealign.io import replacing, resources
from hugealign.io.descriptors import using
from hugealign.io.regular import opened
from hugealign.io.resources import PACKAGE
from hugealign.pagecache import measure, warming
from hugealign.pagecache.warm import CachedText, warm
from hugealign.run import copies, store, tunable
from hugealign.services import dropins, files, mounting
from hugealign.services import programs as services
from hugealign.services.files import File
from hugealign.services.programs import Service
from hugealign.services.view import View
from hugealign.system import kernel

_MODE = 0o644  # of units
_MOST_WATCHED = 8  # paths; systemd takes an instance of inotify for each, and root has 128 of these by default
_MANY = 3  # files of a directory, which is watched instead of them


@dataclass(frozen=True, slots=True)
class EnableOptions:
    """What to enable: *files* besides the service's own program, and directories with such files.

    All paths are as the service sees them.  *libs*: its shared libraries; *fix*: fixed copies; *max*: the most bytes
    that its copies may take, None for no bound.  *now*: the service is restarted afterwards.
    """

    files: Sequence[str] = ()
    libs: bool = False
    fix: bool = False
    max: int | None = None
    now: bool = False


@dataclass(frozen=True, slots=True)
class Enabled:
    """The service *name*: *texts* are the files to write, by path; *staged* and *warmed* are the files it runs from.

    *left* tells of each file below a directory that no unit can name, and of what others will not see.  *memory*: bytes
    that the copies take, in whole huge pages; *executable*: bytes of read-only data that their fixes make executable.
    """

    name: str
    texts: dict[str, str]
    staged: Sequence[str]
    warmed: Sequence[str]
    left: Sequence[Diagnosis] = ()
    memory: int = 0
    executable: int = 0


@dataclass(frozen=True, slots=True)
class Renewed:
    """What a start of a service runs from; *failed* tells why it does not run from a copy of each of these files."""

    staged: Sequence[str]
    warmed: Sequence[str]
    failed: Sequence[Diagnosis]


@dataclass(frozen=True, slots=True)
class Changed:
    """A service whose files changed."""

    unit: str
    """The service, as given."""
    files: Sequence[str]
    """That were written or, with --dry-run, would be; of disable: that were removed."""

    JSON = "unit files"


@dataclass(frozen=True, slots=True)
class Report:
    """What `hugealign enable` or `disable` did.  Names are escaped as in the text output."""

    units: Sequence[Changed]
    """Which take effect when they are restarted."""
    errors: Sequence[Failed]
    """Units that stay as they are."""

    SCHEMA = "hugealign.enable/1"
    JSON = "units errors"


def plan(unit: str, options: EnableOptions, fixes: copies.Fixes | None = None) -> Enabled:
    """Return what to write for the service *unit*, without changing anything; *fixes* are those known already.

    Raises HugealignError.
    """
    service = services.query(unit, named=bool(options.files))
    if services.starts_early(service.name):
        raise RefusalError("service.starts-early")
    seen = files.seen_by(service)
    fixes = (fixes or copies.Fixes()) if options.fix else None
    found = files.programs(service, seen, options.files, loaded=options.libs)
    if not service.pid and not options.files and found and all(file.starts_another for file in found):
        raise RefusalError("service.starter", Remedy("name-program"), program=found[0].name)
    if not found:
        _refuse_members(service, options)
        raise RefusalError("service.script", Remedy("name-program"))
    places = {file.found.source: place_of(file.found.source, fixes) for file in found}
    if not any(places.values()):
        _refuse_members(service, options)
    found = files.with_libraries(found, service, seen) if options.libs else found
    for file in found:
        if file.found.source not in places:
            places[file.found.source] = place_of(file.found.source, fixes)
    kept, left = _coverable(found, places, seen, options)
    if not kept:
        raise RefusalError("service.no-window", _gaining(service, seen, options, found))
    kept, too_large = _within(kept, places, fixes, options.max)
    if not kept:
        raise RefusalError.of(too_large[0])
    left += too_large
    staged = [file for file in kept if places[file.found.source] == "stage"]
    if staged:
        started = [file.found.source for file in found if not file.library]
        left += mounting.check(service, [source for source in started if not files.is_library(source)])
    warmed = [file.found.source for file in kept if places[file.found.source] == "warm"]
    first = kept[0].found
    keeps = tunable.VARIABLE not in service.environment and first.source == first.target
    setup = dropins.ServiceSetup(
        service.name,
        [file.found for file in staged],
        warmed,
        [*_flags(options), *(f"--file={file.name}" for file in kept if file.given)],
        _watched([file.name if seen.shows(file.name, file.found) else file.found.source for file in staged]),
        keeps and tunable.has_tunable(first.source),
        store.DEFAULT,
        sum(os.stat(file.found.source).st_size for file in kept),
    )
    paths, texts = [file.found.source for file in staged], dropins.texts(setup, command())
    return Enabled(service.name, texts, paths, warmed, left, *costs(paths, fixes))


def costs(paths: Sequence[str], fixes: copies.Fixes | None) -> tuple[int, int]:
    """Return the bytes that copies of the files at *paths* take, whole huge pages of each, once on the machine.

    And how many bytes of data their fixes make executable.
    """
    all_costs = [_cost(path, fixes) for path in paths]
    return sum(memory for _, memory, _ in all_costs), sum(executable for *_, executable in all_costs)


def _cost(path: str, fixes: copies.Fixes | None) -> tuple[int, int, int]:
    """Return the windows of a copy of the file at *path*, its bytes, and those that its fix makes executable."""
    page_size = kernel.huge_page_size()
    with opened(path) as fd:
        known = store.fixed_before(path, fd) if fixes else None
        if origin := known or copies.source(path, fd, fixes):
            return origin.windows, -(-origin.size // page_size) * page_size, origin.executable
    return 0, 0, 0


def _within(
    found: Sequence[File], places: Mapping[str, str], fixes: copies.Fixes | None, most: int | None
) -> tuple[list[File], list[Diagnosis]]:
    """Return those of *found* whose copies together take no more than *most* bytes, and why not the others.

    The programs come first, then what has the most windows for its memory.  *places* say which have copies.
    """
    if most is None:
        return list(found), []
    costs: dict[File, tuple[int, int, int]] = {}
    left: dict[File, Diagnosis] = {}
    for file in found:
        try:
            if places[file.found.source] == "stage":
                costs[file] = _cost(file.found.source, fixes)
        except (HugealignError, OSError) as error:
            left[file] = diagnosed(file.found.target, error)
    for file in sorted(costs, key=lambda file: (file.library, -costs[file][0] / max(costs[file][1], 1))):
        if costs[file][1] > most:
            left[file] = Diagnosis("policy.no-room", file.found.target, {"size": costs[file][1], "room": most})
        else:
            most -= costs[file][1]
    return [file for file in found if file not in left], list(left.values())


def _coverable(
    found: Sequence[File], places: Mapping[str, str], seen: View, options: EnableOptions
) -> tuple[list[File], list[Diagnosis]]:
    """Return those of *found* that have a place and can be covered, and why some below a directory cannot.

    Raises RefusalError for a program that cannot.
    """
    trees = tuple(f"{seen.find(path).target.rstrip('/')}/" for path in options.files if files.is_directory(seen, path))
    kept: list[File] = []
    left: list[Diagnosis] = []
    for file in found:
        place, target = places[file.found.source], file.found.target
        odd = not dropins.is_plain(file.found.source) or not dropins.is_plain(target)
        setting = seen.covered(file.found) if place == "stage" else ""
        if place and odd and target.startswith(trees):
            left.append(Diagnosis("service.odd-name", target, {"file": target}))
        elif setting and not file.library:
            raise RefusalError("service.own-mount", file=target, setting=setting)
        elif place and not setting:
            kept.append(file)
    return kept, left


def renew(unit: str, options: EnableOptions) -> Renewed:
    """Look up what the service *unit* starts now, and prepare its text; the service has not started yet.

    What its drop-in does not cover yet is added at run time.  Raises HugealignError.
    """
    service = services.query(unit, named=True)
    *_, lasting, found_since = dropins.paths(service.name)
    known = (_ours(lasting) or b"").decode().splitlines()
    if not known:
        raise RefusalError("service.not-enabled")
    seen = files.seen_by(service)
    fixes = copies.Fixes() if options.fix else None
    found = files.programs(replace(service, pid=0), seen, options.files, loaded=False, renewing=True)
    found = files.with_libraries(found, service, seen) if options.libs else found
    found = [file for file in found if not seen.covered(file.found)]
    identities = store.identities([file.found.source for file in found])
    lines: dict[str, str] = {}
    places: dict[str, str] = {}
    failed = []
    for file in found:
        source = file.found.source
        try:
            (lines[source],) = dropins.binds(dropins.ServiceSetup(service.name, [file.found]))
            # What has a copy keeps one: an attempt in place reads the whole file.
            places[source] = "stage" if lines[source] in known else place_of(source, fixes)
        except (HugealignError, OSError) as error:
            failed.append(diagnosed(file.name, error))
    staged: dict[str, str] = {}  # the line of each
    kept, too_large = _within([file for file in found if file.found.source in places], places, fixes, options.max)
    failed += too_large
    for file in (file for file in kept if places[file.found.source] == "stage"):
        source = file.found.source
        try:
            owner = dropins.owner(service.name)
            done = store.stage(source, fix=options.fix, owner=owner, kept=identities, fixes=fixes)
            if done.state != store.NO_WINDOW:
                staged[source] = lines[source]
        except (HugealignError, OSError) as error:
            failed.append(diagnosed(file.name, error))
    missing = [line for line in staged.values() if line not in known]
    if missing and not set(missing) <= set((_ours(found_since) or b"").decode().splitlines()):
        _write(found_since, dropins.more(missing))
        _reload()  # jobs that wait are kept, the service's among them
    return Renewed(list(staged), [source for source, place in places.items() if place == "warm"], failed)


def _write(path: str, text: str) -> None:
    """Write a unit.  Raises DiagnosedError."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        replacing.write(path, text.encode(), _MODE)
    except OSError as error:
        raise DiagnosedError("service.unit-file", file=path, error=error_name(error)) from error


def enable(unit: str, options: EnableOptions, fixes: copies.Fixes | None = None) -> Enabled:
    """Write what `plan` returns; the service stays as it was until it is restarted.  Raises HugealignError."""
    enabled = plan(unit, options, fixes)
    before = {path: _ours(path) for path in dropins.paths(enabled.name)}
    written: list[str] = []
    try:
        for path, text in enabled.texts.items():
            _write(path, text)
            written.append(path)
        for path in [path for path, text in before.items() if text is not None and path not in enabled.texts]:
            _remove(path)
            written.append(path)
    except (OSError, DiagnosedError) as error:
        _put_back(before, written)
        if isinstance(error, DiagnosedError):
            raise
        raise DiagnosedError("service.unit-file", file=path, error=error_name(error)) from error
    _reload()
    return enabled


def disable(unit: str) -> list[str]:
    """Remove what `enable` wrote for the service *unit*, with its copies in the store, and return the paths.

    Raises HugealignError.
    """
    paths = [path for path in dropins.paths(services.full_name(unit)) if os.path.lexists(path)]
    if not paths:
        near = services.near_service(unit)
        raise RefusalError("service.not-enabled", None if near else Remedy("look", ("hugealign", "status")), near=near)
    for path in paths:
        _ours(path)
    if services.manager_runs():
        with contextlib.suppress(HugealignError):  # then it watches until the system is shut down
            services.systemctl("stop", "--", f"{dropins.watcher(services.full_name(unit))}.path")
    try:
        for path in reversed(paths):  # the drop-in first: nothing may bind a copy that is not renewed
            _remove(path)
    except OSError as error:
        raise DiagnosedError("service.unit-file", file=path, error=error_name(error)) from error
    _reload()
    with contextlib.suppress(HugealignError):  # at worst, its copies stay in memory until the system is shut down
        store.release(dropins.owner(services.full_name(unit)))
    return paths


def _watched(names: Sequence[str]) -> list[str]:
    """Return paths that change if one of the files *names* is replaced: few, since each costs the manager a watch.

    Directories that hold many of them, which are those of libraries, and not where a service keeps other things.
    """
    by_directory: dict[str, list[str]] = {}
    for name in names:
        by_directory.setdefault(os.path.dirname(name), []).append(name)
    most = sorted(by_directory.items(), key=lambda item: -len(item[1]))
    paths = [path for place, files in most for path in (files if len(files) < _MANY else [place])]
    first = [path for path in paths if path in names[:1]]  # its program
    return [path for path in dict.fromkeys((*first, *paths)) if dropins.is_plain(path)][:_MOST_WATCHED]


def _gaining(service: Service, seen: View, options: EnableOptions, found: Sequence[File]) -> Remedy | None:
    """Return the command by which a *service* without a window in *files* gets some, None if none is known."""
    fixed = replace(options, fix=True)
    fixes = copies.Fixes()
    if not options.fix and any(_could(file.found.source, fixes) for file in found):
        return Remedy("run", _words(fixed, service.name))
    if service.pid:
        others = [name for name in files.started_by(service.name, seen) if _could(seen.find(name).source, fixes)]
        if others:
            return Remedy("run", _words(replace(fixed, files=(*options.files, *others)), service.name))
    return None


def _could(source: str, fixes: copies.Fixes) -> bool:
    with contextlib.suppress(HugealignError, OSError):
        return bool(place_of(source, fixes))
    return False


def _refuse_members(service: Service, options: EnableOptions) -> None:
    """Raise RefusalError for a *service* that only groups others."""
    members = () if service.pid else service.members or services.members(service.name)
    if members:
        instances = [unit for unit in members if "@." not in unit]
        remedy = Remedy("run", _words(options, *instances)) if instances else None
        raise RefusalError("service.members", remedy, members=" ".join(members))


def _words(options: EnableOptions, *units: str) -> tuple[str, ...]:
    """Return the command that enables *units* with *options*."""
    files = [f"--file={path}" for path in options.files]
    return ("hugealign", "enable", *(["--now"] if options.now else []), *_flags(options), *files, *units)


def _flags(options: EnableOptions) -> list[str]:
    bound = [] if options.max is None else [f"--max={options.max}"]
    return [*(flag for flag, wanted in (("--fix", options.fix), ("--libs", options.libs)) if wanted), *bound]


def place_of(path: str, fixes: copies.Fixes | None) -> str:
    """Return ``warm`` if the file at *path* can be huge in place, ``stage`` if a copy can, "" if neither."""
    with opened(path) as fd:
        origin = copies.source(path, fd, fixes)
        if origin is None or not origin.output:
            done = warm(path)
            if done.offsets and (done.huge == len(done.offsets) or _could_be_warm(path, done)):
                return "warm"
        if origin is None:
            return ""
        copies.check(origin)
    return "stage"


def _could_be_warm(path: str, done: CachedText) -> bool:
    """Return whether a file that is in use could be warmed if it were not; tried with a new file beside it."""
    if done.diagnosis is None or done.diagnosis.code == "file-system.no-huge-pages":
        return False
    with contextlib.suppress(OSError, HugealignError), measure.huge_pages_allowed():
        return warming.trial(os.path.dirname(path)) == 1
    return False


def command() -> str:
    """Return the path of hugealign itself, which the system will start as root.  Raises HugealignError."""
    beside = os.path.join(os.path.dirname(PACKAGE), "bin", "hugealign")
    path = beside if os.path.exists(beside) else shutil.which("hugealign")
    if path is None:
        raise DiagnosedError("service.no-command")
    for directory in (os.path.dirname(os.path.realpath(path)), PACKAGE):
        try:
            with using(os.open(directory, os.O_RDONLY)) as fd:
                resources.check_directory(fd, directory)
        except HugealignError as error:
            raise RefusalError("service.untrusted-command", directory=directory) from error
    return os.path.abspath(path)


def _ours(path: str) -> bytes | None:
    """Return what we wrote to *path*, None if nothing is there.  Raises HugealignError if the file is not ours."""
    try:
        with open(path, "rb") as file:
            first = file.readline()
            if first.rstrip(b"\n") != dropins.MARK.encode():
                raise RefusalError("service.foreign-file", file=path)
            return first + file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DiagnosedError("service.unit-file", file=path, error=error_name(error)) from error


def _put_back(before: Mapping[str, bytes | None], written: Sequence[str]) -> None:
    """Undo what was *written*: a service enabled *before* stays enabled.  If that fails, remove all our files."""
    try:
        for path in reversed(written):
            text = before[path]
            if text is None:
                _remove(path)
            else:
                replacing.write(path, text, _MODE)
    except (OSError, HugealignError):
        for path in reversed(list(before)):
            with contextlib.suppress(OSError, HugealignError):
                _remove(path)


def _remove(path: str) -> None:
    _ours(path)
    os.unlink(path)
    if os.path.dirname(path) != dropins.PLACE:
        with contextlib.suppress(OSError):  # others have files in it
            os.rmdir(os.path.dirname(path))


def _reload() -> None:
    if services.manager_runs():
        services.systemctl("daemon-reload")
