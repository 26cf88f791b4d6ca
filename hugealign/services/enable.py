"""`hugealign enable` as functions: let a systemd service run from huge text, and undo that."""

import contextlib
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hugealign.diagnosis import documents
from hugealign.diagnosis.refusal import DiagnosedError, RefusalError, diagnosed, error_name
from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.elf.dynamic import read_dynamic
from hugealign.elf.image import read_image
from hugealign.errors import HugealignError, NotElfError, cause
from hugealign.io import replacing, resources
from hugealign.io.descriptors import using
from hugealign.io.regular import FileError, opened
from hugealign.io.resources import PACKAGE
from hugealign.io.units import printable
from hugealign.pagecache import measure, warming
from hugealign.pagecache.warm import CachedText, warm
from hugealign.process import groups, processes, starts
from hugealign.run import copies, launch, store
from hugealign.services import dropins, mounting
from hugealign.services import programs as services
from hugealign.services.programs import Service
from hugealign.services.view import Found, View
from hugealign.system import libraries
from hugealign.verification import inputs

SCHEMA = "hugealign.enable/1"
_MODE = 0o644  # of units


#: Programs that start others: what a unit with one of them runs is seen only when it runs.
_STARTERS = frozenset(
    "sh ash bash busybox csh dash fish ksh mksh tcsh zsh authbind capsh catatonit chpst chroot chrt circusd daemon "
    "dbus-run-session dumb-init env envdir flock gosu ionice monit nice nohup nsenter numactl prlimit runsv runsvdir "
    "runuser s6-svscan s6-supervise setpriv setsid setuidgid softlimit start-stop-daemon stdbuf su su-exec sudo "
    "svscan systemd-inhibit taskset time timeout tini unshare".split()
)
_MOST_WATCHED = 8  # paths; systemd takes an instance of inotify for each, and root has 128 of these by default
_MOST_PROGRAMS = 16  # to name in a command


@dataclass(frozen=True, slots=True)
class EnableOptions:
    """What to enable: *files* besides the service's own program, and directories with such files.

    All paths are as the service sees them.  *libs*: its shared libraries; *fix*: fixed copies.
    """

    files: Sequence[str] = ()
    libs: bool = False
    fix: bool = False


@dataclass(frozen=True, slots=True)
class Enabled:
    """The service *name*: *texts* are the files to write, by path; *staged* and *warmed* are the files it runs from.

    *left* tells of each file below a directory that no unit can name, and of what others will not see.
    """

    name: str
    texts: dict[str, str]
    staged: Sequence[str]
    warmed: Sequence[str]
    left: Sequence[Diagnosis] = ()


@dataclass(frozen=True, slots=True)
class Renewed:
    """What a start of a service runs from; *failed* tells why it does not run from a copy of each of these files."""

    staged: Sequence[str]
    warmed: Sequence[str]
    failed: Sequence[Diagnosis]


@dataclass(frozen=True, slots=True)
class _File:
    """A file of a service: the *name* by which it is looked for; *library*: it is no program that the unit starts.

    *given*: the unit does not name it, so the helper has to.
    """

    name: str
    found: Found
    library: bool = False
    given: bool = False

    def bind(self, seen: View) -> dropins.Bind:
        """Return how to cover it, through links where they lead to the same file here and in the service."""
        if seen.shows(self.name, self.found):
            return dropins.Bind(self.name, self.name)
        return dropins.Bind(self.found.source, self.found.target)


def plan(unit: str, options: EnableOptions) -> Enabled:
    """Return what to write for the service *unit*, without changing anything.  Raises HugealignError."""
    service = services.look(unit, named=bool(options.files))
    if services.starts_early(service.name):
        raise RefusalError("service.starts-early")
    seen = _view(service)
    fixes = copies.Fixes() if options.fix else None
    files = _programs(service, seen, options)
    places = {file.found.source: place_of(file.found.source, fixes) for file in files}
    if not any(places.values()):
        _refuse_members(service, options)
    files = _with_libraries(files, service, seen) if options.libs else files
    for file in files:
        if file.found.source not in places:
            places[file.found.source] = place_of(file.found.source, fixes)
    trees = [f"{seen.find(path).target.rstrip('/')}/" for path in options.files if _is_directory(seen, path)]
    left: list[Diagnosis] = []
    kept: list[_File] = []
    for file in files:
        bind = file.bind(seen)
        odd = not all(map(dropins.is_plain, (bind.name, bind.target)))
        if places[file.found.source] and odd and file.found.target.startswith(tuple(trees)):
            left.append(Diagnosis("service.odd-name", file.found.target, {"file": file.found.target}))
        elif places[file.found.source] == "stage" and (setting := seen.covered(file.found)):
            if not file.library:
                raise RefusalError("service.own-mount", file=file.found.target, setting=setting)
        elif places[file.found.source]:
            kept.append(file)
    if not kept:
        raise RefusalError("service.no-window", _gaining(service, seen, options, files))
    staged = [file for file in kept if places[file.found.source] == "stage"]
    if staged:
        left += mounting.check(service, [file.found.source for file in files if not file.library])
    warmed = [file.found.source for file in kept if places[file.found.source] == "warm"]
    first = kept[0].found
    keeps = launch.VARIABLE not in service.environment and first.source == first.target
    setup = dropins.ServiceSetup(
        service.name,
        [file.bind(seen) for file in staged],
        warmed,
        [*_flags(options), *(f"--file={file.name}" for file in kept if file.given)],
        _watched([file.bind(seen).name for file in staged]),
        keeps and launch.has_tunable(first.source),
        store.DEFAULT,
        sum(os.stat(file.found.source).st_size for file in kept),
    )
    return Enabled(service.name, dropins.texts(setup, _command()), [file.found.source for file in staged], warmed, left)


def renew(unit: str, options: EnableOptions) -> Renewed:
    """Look up what the service *unit* starts now, and prepare its text; the service has not started yet.

    What its drop-in does not cover yet is added at run time.  Raises HugealignError.
    """
    service = services.look(unit, named=True)
    seen = _view(service)
    fixes = copies.Fixes() if options.fix else None
    files = _programs(replace(service, pid=0), seen, options, renewing=True)
    files = _with_libraries(files, service, seen) if options.libs else files
    files = [file for file in files if not seen.covered(file.found)]
    identities = store.identities([file.found.source for file in files])
    *_, lasting, found_since = dropins.paths(service.name)
    known = (_ours(lasting) or b"").decode().splitlines()
    staged: dict[str, str] = {}  # the line of each
    warmed, failed = [], []
    for file in files:
        source, bind = file.found.source, file.bind(seen)
        try:
            (line,) = dropins.binds(dropins.ServiceSetup(service.name, [bind]))
            # What has a copy keeps one: an attempt in place reads the whole file.
            if line not in known and (place := place_of(source, fixes)) != "stage":
                warmed += [source] if place else []
                continue
            name = dropins.owner(service.name)
            done = store.stage(source, store.DEFAULT, options.fix, name, identities, fixes, bind.name)
            if done.state != store.NO_WINDOW:
                staged[source] = line
        except (HugealignError, OSError) as error:
            failed.append(diagnosed(file.name, error))
    missing = [line for line in staged.values() if line not in known]
    if missing and not set(missing) <= set((_ours(found_since) or b"").decode().splitlines()):
        _write(found_since, dropins.more(missing))
        _reload()  # jobs that wait, as that of the service, are kept
    return Renewed(list(staged), warmed, failed)


def _write(path: str, text: str) -> None:
    """Write a unit.  Raises DiagnosedError."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        replacing.write(path, text.encode(), _MODE)
    except OSError as error:
        raise DiagnosedError("service.unit-file", file=path, error=error_name(error)) from error


def enable(unit: str, options: EnableOptions) -> Enabled:
    """Write what `plan` returns; the service stays as it was until it is restarted.  Raises HugealignError."""
    enabled = plan(unit, options)
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
        raise RefusalError("service.not-enabled")
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


def to_json(units: Mapping[str, Sequence[str]], errors: Sequence[tuple[str, HugealignError]]) -> str:
    """Return the JSON document that enable-1.schema.json beside this file describes: *units* with their files."""
    changed = [{"unit": printable(unit), "files": list(map(printable, files))} for unit, files in units.items()]
    return documents.to_json(SCHEMA, {"units": changed, "errors": documents.errors(errors)})


def _view(service: Service) -> View:
    return View(service.settings, store.DEFAULT)


def _is_directory(seen: View, path: str) -> bool:
    with contextlib.suppress(OSError, HugealignError):
        return os.path.isdir(seen.find(os.path.abspath(path)).source)
    return False


def _programs(service: Service, seen: View, options: EnableOptions, *, renewing: bool = False) -> list[_File]:
    """Return the ELF files that the *service* runs from, the program first.

    The libraries that a program is linked with are not among them, unless a running service has loaded them.  When
    *renewing*, files that are missing are left out.
    """
    below = [path for path in options.files if _is_directory(seen, path)]
    named = [os.path.abspath(path) for path in options.files if path not in below]
    started = [path for program in service.programs if (path := _searched(program, service.path, seen))]
    names = [(path, False, True) for path in named] + [(path, False, False) for path in started]
    if service.pid:
        running = processes.look(service.pid, libraries=options.libs)
        loaded = [mapping.path for mapping in running.text(libraries=options.libs) if not mapping.deleted]
        names += [(starts.called(service.pid, running.exe_id, running.exe) or running.exe, False, True)]
        names += [(path, True, True) for path in loaded if path != running.exe]
    for path in below:
        top = seen.find(os.path.abspath(path))
        inside = [os.path.relpath(place.path, top.source) for place in inputs.programs([top.source])]
        names += [(os.path.join(top.target, name), True, True) for name in inside]
    files: dict[str, _File] = {}
    for name, library, given in names:
        try:
            found = seen.find(name)
            if found.source not in files and _is_elf(found.source, name in named and not renewing):
                files[found.source] = _File(_steady(name, found, seen) if library else name, found, library, given)
        except (OSError, HugealignError) as error:
            if not renewing and not library and (name in named or isinstance(error, RefusalError)):
                if isinstance(error, OSError):
                    raise FileError(cause(error)) from error
                raise
    programs = list(files.values())
    if not renewing:
        _refuse_starters(service, options, programs)
    if not programs and not renewing:
        _refuse_members(service, options)
        raise RefusalError("service.script", Remedy("name-program"))
    return programs


def _searched(program: str, directories: Sequence[str], seen: View) -> str:
    """Return the path of a *program*, which systemd searches for in *directories* if it has none; empty if missing."""
    if "/" in program:
        return program
    for directory in directories:
        with contextlib.suppress(OSError, HugealignError):
            if os.path.exists(seen.find(path := f"{directory}/{program}").source):
                return path
    return ""


def _with_libraries(files: Sequence[_File], service: Service, seen: View) -> list[_File]:
    """Return *files* with the libraries that they are linked with, as the loader of the service finds them."""

    def find(path: str) -> tuple[str, str]:
        found = seen.find(path)
        return found.source, found.target

    environment = {}
    with contextlib.suppress(ValueError):
        words = [word.partition("=") for word in shlex.split(service.environment)]
        environment = {name: value for name, _, value in words}
    result = {file.found.source: file for file in files}
    for file in files:
        with contextlib.suppress(HugealignError, OSError):
            for path in libraries.resolve(file.found.target, environment, find).paths:
                found = seen.find(path)
                result.setdefault(found.source, _File(_steady(path, found, seen), found, library=True))
    return list(result.values())


def _steady(path: str, found: Found, seen: View) -> str:
    """Return the name of a library that stays when its version changes, if one leads there; else its *path*."""
    with contextlib.suppress(HugealignError, OSError), opened(found.source) as fd:
        soname = read_dynamic(fd, read_image(fd)).soname
        name = os.path.join(os.path.dirname(found.target), os.path.basename(soname))
        if soname and seen.find(name) == found:
            return name
    return path


def _watched(names: Sequence[str]) -> list[str]:
    """Return paths that change if one of the files *names* is replaced: few, since each costs the manager a watch.

    Directories that hold many of them, which are those of libraries, and not where a service keeps other things.
    """
    by_directory: dict[str, list[str]] = {}
    for name in names:
        by_directory.setdefault(os.path.dirname(name), []).append(name)
    most = sorted(by_directory.items(), key=lambda item: -len(item[1]))
    paths = [path for place, files in most for path in (files if len(files) < 3 else [place])]
    first = [path for path in paths if path in names[:1]]  # its program
    return [path for path in dict.fromkeys((*first, *paths)) if dropins.is_plain(path)][:_MOST_WATCHED]


def _refuse_starters(service: Service, options: EnableOptions, programs: Sequence[_File]) -> None:
    """Raise RefusalError for a *service* that does not run, and whose program only starts another."""
    if not service.pid and not options.files and programs and all(map(_is_starter, programs)):
        raise RefusalError("service.starter", Remedy("name-program"), program=programs[0].name)


def _is_starter(file: _File) -> bool:
    return not _STARTERS.isdisjoint(map(os.path.basename, (file.name, file.found.target)))


def _gaining(service: Service, seen: View, options: EnableOptions, files: Sequence[_File]) -> Remedy | None:
    """Return the command by which a *service* without a window in *files* gets some, None if none is known."""
    fixed = replace(options, fix=True)
    fixes = copies.Fixes()
    if not options.fix and any(_could(file.found.source, fixes) for file in files):
        return Remedy("run", _words(fixed, service.name))
    if service.pid:
        others = [name for name in _started_by(service.name, seen) if _could(seen.find(name).source, fixes)]
        if others:
            return Remedy("run", _words(replace(fixed, files=(*options.files, *others)), service.name))
    return None


def _could(source: str, fixes: copies.Fixes) -> bool:
    with contextlib.suppress(HugealignError, OSError):
        return bool(place_of(source, fixes))
    return False


def _started_by(unit: str, seen: View) -> list[str]:
    """Return the programs of the processes of the service *unit*, as it sees them."""
    names: dict[str, None] = {}
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        if groups.service(groups.of_process(int(pid))) == unit:
            with contextlib.suppress(OSError, HugealignError):
                name = os.readlink(f"/proc/{pid}/exe")
                seen.find(name)
                names[name] = None
    return list(names)[:_MOST_PROGRAMS]


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
    return ("hugealign", "enable", *_flags(options), *files, *units)


def _flags(options: EnableOptions) -> list[str]:
    return [flag for flag, wanted in (("--fix", options.fix), ("--libs", options.libs)) if wanted]


def _is_elf(path: str, asked: bool) -> bool:
    try:
        with opened(path) as fd:
            read_image(fd)
    except NotElfError:
        return False
    except HugealignError:
        if asked:
            raise
        return False
    return True


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
        return warming.trial(os.path.dirname(path), done.page_size) == 1
    return False


def _command() -> str:
    """Return the path of hugealign itself, which the system will start as root.  Raises HugealignError."""
    beside = os.path.join(os.path.dirname(PACKAGE), "bin", "hugealign")
    path = beside if os.path.exists(beside) else shutil.which("hugealign")
    if path is None:
        raise DiagnosedError("service.no-command")
    for directory in (os.path.dirname(os.path.realpath(path)), PACKAGE):
        try:
            with using(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as fd:
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
