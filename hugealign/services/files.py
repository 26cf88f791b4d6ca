"""The files that a service runs from, by the names that lead to them in the service."""

import contextlib
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from hugealign.diagnosis.refusal import DiagnosedError, RefusalError, error_name
from hugealign.elf.dynamic import read_dynamic
from hugealign.elf.image import read_image
from hugealign.errors import UNREADABLE, HugealignError, NotElfError
from hugealign.io.regular import opened
from hugealign.process import groups, processes, starts
from hugealign.run import copies, store
from hugealign.services.programs import Service
from hugealign.services.view import Found, View
from hugealign.system import libraries
from hugealign.verification import inputs

#: Programs that start others: what a unit with one of them runs is seen only when it runs.
_STARTERS = frozenset(
    "sh ash bash busybox csh dash fish ksh mksh tcsh zsh authbind capsh catatonit chpst chroot chrt circusd daemon "
    "dbus-run-session dumb-init env envdir flock gosu ionice monit nice nohup nsenter numactl prlimit runsv runsvdir "
    "runuser s6-svscan s6-supervise setpriv setsid setuidgid softlimit start-stop-daemon stdbuf su su-exec sudo "
    "svscan systemd-inhibit taskset time timeout tini unshare".split()
)
_MOST_PROGRAMS = 16  # to name in a command
_PATH = re.compile(r"""(?<![^\s"'`(;&|])/[A-Za-z0-9_./+@-]+""")  # a word of a command, in a script also


@dataclass(frozen=True, slots=True)
class File:
    """A file of a service: the *name* by which it is looked for; *library*: it is not a program that the unit starts.

    *given*: the unit does not name it, so the helper has to.
    """

    name: str
    found: Found
    library: bool = False
    given: bool = False

    @property
    def starts_another(self) -> bool:
        """Whether it is a program that only starts another."""
        return is_starter(self.name) or is_starter(self.found.target)


def is_starter(program: str) -> bool:
    """Return whether the *program*, by its path, only starts others."""
    return os.path.basename(program) in _STARTERS


def is_library(path: str) -> bool:
    """Say whether the file at *path* has the name of a library (DT_SONAME): the C library can mount, and does not."""
    with contextlib.suppress(HugealignError, OSError), opened(path) as fd:
        return bool(read_dynamic(fd, read_image(fd)).soname)
    return False


def seen_by(service: Service) -> View:
    """Return the files that the *service* sees.  Raises RefusalError if that cannot be known."""
    return View(service.settings, store.DEFAULT)


def is_directory(seen: View, path: str) -> bool:
    """Return whether the service sees a directory at *path*."""
    with contextlib.suppress(OSError, HugealignError):
        return os.path.isdir(seen.find(os.path.abspath(path)).source)
    return False


def programs(service: Service, seen: View, paths: Sequence[str], *, loaded: bool, renewing: bool = False) -> list[File]:
    """Return the ELF files that the *service* runs from, those at *paths* first, also below directories.

    Of a running service they include its program and, if *loaded*, the libraries that it has loaded; not those that a
    program is linked with, nor small ones.  When *renewing*, missing files are left out.  Raises HugealignError.
    """
    below = [path for path in paths if is_directory(seen, path)]
    named = [os.path.abspath(path) for path in paths if path not in below]
    started = [path for program in service.programs if (path := _searched(program, service.path, seen))]
    # A shell or the like runs what its words name; they are looked up again at each start, as the unit is.
    behind = _named(service, seen) if any(os.path.basename(path) in _STARTERS for path in started) else []
    names = [(path, False, True) for path in named] + [(path, False, False) for path in (*behind, *started)]
    if service.pid:
        running = processes.read(service.pid, libraries=loaded)
        mapped = [mapping.path for mapping in running.text(libraries=loaded) if not mapping.deleted]
        names += [(starts.called(service.pid, running.exe_id, running.exe) or running.exe, False, True)]
        names += [(path, True, True) for path in mapped if path != running.exe and not _is_small(path, seen)]
    for path in below:
        top = seen.find(os.path.abspath(path))
        inside = [os.path.relpath(place.path, top.source) for place in inputs.programs([top.source])]
        names += [(os.path.join(top.target, name), True, True) for name in inside]
    files: dict[str, File] = {}
    for name, library, given in names:
        try:
            found = seen.find(name)
            if found.source not in files and _is_elf(found.source, name in named and not renewing):
                files[found.source] = File(_steady(name, found, seen) if library else name, found, library, given)
        except (OSError, HugealignError) as error:
            if not renewing and not library and (name in named or isinstance(error, RefusalError)):
                if isinstance(error, OSError):  # the unit is the subject
                    raise DiagnosedError(UNREADABLE, file=name, error=error_name(error)) from error
                raise
    return list(files.values())


def _named(service: Service, seen: View) -> list[str]:
    """Return the paths of programs among the words with which the *service* starts its own."""
    paths = []
    for path in dict.fromkeys(path for command in service.starts for path in _PATH.findall(command)):
        with contextlib.suppress(OSError, HugealignError):
            source = seen.find(path).source
            if os.path.isfile(source) and os.access(source, os.X_OK):
                paths.append(path)
    return paths[:_MOST_PROGRAMS]


def _searched(program: str, directories: Sequence[str], seen: View) -> str:
    """Return the path of a *program*, which systemd searches for in *directories* if it has none; empty if missing."""
    if "/" in program:
        return program
    for directory in directories:
        with contextlib.suppress(OSError, HugealignError):
            if os.path.exists(seen.find(path := f"{directory}/{program}").source):
                return path
    return ""


def with_libraries(files: Sequence[File], service: Service, seen: View) -> list[File]:
    """Return *files* with the libraries that they are linked with, as its loader finds them; not small ones."""

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
                if _is_small(path, seen):
                    continue
                result.setdefault(found.source, File(_steady(path, found, seen), found, library=True))
    return list(result.values())


def started_by(unit: str, seen: View) -> list[str]:
    """Return the programs of the processes of the service *unit*, as it sees them."""
    names: dict[str, None] = {}
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        if groups.service(groups.of_process(int(pid))) == unit:
            with contextlib.suppress(OSError, HugealignError):
                name = os.readlink(f"/proc/{pid}/exe")
                seen.find(name)
                names[name] = None
    return list(names)[:_MOST_PROGRAMS]


def _steady(path: str, found: Found, seen: View) -> str:
    """Return the name of a library that stays when its version changes, if one leads there; else its *path*."""
    with contextlib.suppress(HugealignError, OSError), opened(found.source) as fd:
        soname = read_dynamic(fd, read_image(fd)).soname
        name = os.path.join(os.path.dirname(found.target), os.path.basename(soname))
        if soname and seen.find(name) == found:
            return name
    return path


def _is_small(path: str, seen: View) -> bool:
    with contextlib.suppress(OSError, HugealignError):
        return copies.is_small_library(seen.find(path).source)
    return False


def _is_elf(path: str, named: bool) -> bool:
    try:
        with opened(path) as fd:
            read_image(fd)
    except NotElfError:
        return False
    except HugealignError:
        if named:
            raise
        return False
    return True
