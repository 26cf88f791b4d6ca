"""`hugealign enable` as functions: let a systemd service run from huge text, and undo that."""

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hugealign.diagnosis import documents
from hugealign.diagnosis.refusal import DiagnosedError, RefusalError, error_name
from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.elf.image import read_image
from hugealign.errors import HugealignError, NotElfError
from hugealign.io import replacing, resources
from hugealign.io.descriptors import using
from hugealign.io.regular import opened
from hugealign.io.resources import PACKAGE
from hugealign.io.units import printable
from hugealign.pagecache import measure, warming
from hugealign.pagecache.warm import CachedText, warm
from hugealign.process import processes
from hugealign.run import copies, launch, store
from hugealign.services import dropins
from hugealign.services import programs as services
from hugealign.services.programs import Service
from hugealign.system import libraries
from hugealign.verification import inputs

SCHEMA = "hugealign.enable/1"
_MODE = 0o644  # of units


@dataclass(frozen=True, slots=True)
class EnableOptions:
    """What to enable: *files* besides the service's own program, and directories with such files.

    *libs*: its shared libraries; *fix*: fixed copies.
    """

    files: Sequence[str] = ()
    libs: bool = False
    fix: bool = False


@dataclass(frozen=True, slots=True)
class Enabled:
    """The service *name*: *texts* are the files to write, by path; *staged* and *warmed* are the files it runs from.

    *left* tells of each file below a directory that no unit can name.
    """

    name: str
    texts: dict[str, str]
    staged: Sequence[str]
    warmed: Sequence[str]
    left: Sequence[Diagnosis] = ()


def plan(unit: str, options: EnableOptions) -> Enabled:
    """Return what to write for the service *unit*, without changing anything.  Raises HugealignError."""
    service = services.look(unit, named=bool(options.files))
    if services.starts_early(service.name):
        raise RefusalError("service.starts-early")
    staged: list[str] = []
    warmed: list[str] = []
    left: list[Diagnosis] = []
    fixes = copies.Fixes()
    places = {path: place_of(path, fixes if options.fix else None) for path in _programs(service, options)}
    if not any(places.values()):
        _refuse_members(service, options)
    for path in [lib for program in places for lib in libraries.resolve(program).paths] if options.libs else ():
        if path not in places:
            places[path] = place_of(path, fixes if options.fix else None)
    trees = [os.path.realpath(path) + os.sep for path in options.files if os.path.isdir(path)]
    for path, place in places.items():
        if place and not dropins.is_plain(path) and path.startswith(tuple(trees)):
            left.append(Diagnosis("service.odd-name", path, {"file": path}))
        elif place:
            (warmed if place == "warm" else staged).append(path)
    if not staged and not warmed:
        fixable = not options.fix and any(place_of(path, fixes) for path in places)
        remedy = Remedy("run", _words(replace(options, fix=True), service.name)) if fixable else None
        raise RefusalError("service.no-window", remedy)
    keeps = launch.VARIABLE not in service.environment and launch.has_tunable((*staged, *warmed)[0])
    size = sum(os.stat(path).st_size for path in (*staged, *warmed))
    setup = dropins.ServiceSetup(service.name, staged, warmed, options.fix, keeps, store.DEFAULT, size)
    return Enabled(service.name, dropins.texts(setup, _command()), staged, warmed, left)


def enable(unit: str, options: EnableOptions) -> Enabled:
    """Write what `plan` returns; the service stays as it was until it is restarted.  Raises HugealignError."""
    enabled = plan(unit, options)
    before = {path: _ours(path) for path in enabled.texts}
    written: list[str] = []
    try:
        for path, text in enabled.texts.items():
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            replacing.write(path, text.encode(), _MODE)
            written.append(path)
    except OSError as error:
        _put_back(before, written)
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


def _programs(service: Service, options: EnableOptions) -> list[str]:
    """Return the real paths of the ELF files that the *service* runs from, the program first.

    The libraries that a program is linked with are not among them, unless a running service has loaded them.
    """
    below = [path for path in options.files if os.path.isdir(path)]
    named = [path for path in options.files if path not in below]
    paths = [os.path.realpath(path) for path in (*named, *service.programs)]
    if service.pid:
        running = processes.look(service.pid, libraries=options.libs)
        paths.append(running.exe)
        paths += [mapping.path for mapping in running.text(libraries=options.libs) if not mapping.deleted]
    paths += [os.path.realpath(place.path) for place in inputs.programs(below)]
    programs = [path for path in dict.fromkeys(paths) if _is_elf(path, path in named)]
    if not programs:
        _refuse_members(service, options)
        raise RefusalError("service.script", Remedy("name-program"))
    return programs


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
    flags = [("--fix", options.fix), ("--libs", options.libs)]
    return ("hugealign", "enable", *(flag for flag, wanted in flags if wanted), *files, *units)


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
