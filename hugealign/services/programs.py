"""What a systemd service executes: from the manager if it runs, otherwise from the unit files.

systemd.unit(5) and systemd.service(5) describe the formats.
"""

import glob
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from hugealign.diagnosis.refusal import DiagnosedError, RefusalError, error_name
from hugealign.diagnosis.values import ARGUMENTS, Remedy
from hugealign.errors import HugealignError, UsageError
from hugealign.io.execution import finished
from hugealign.io.numbers import decimal
from hugealign.io.units import nearest
from hugealign.process import naming
from hugealign.process.processes import pids
from hugealign.services import dropins, view
from hugealign.system import unitnames

UNIT_DIRECTORIES = unitnames.DIRECTORIES
#: Where systemd looks for a program without a directory (systemd.service(5), "Command lines").
PROGRAM_DIRECTORIES = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_NAME = re.compile(r"[A-Za-z0-9:_.\\-]+(@[A-Za-z0-9:_.\\-]*)?\.service")
_LONGEST = 200  # characters of a name: our helper's has a few more, and file names may have at most 255
_LIMIT = 1 << 20  # bytes of a unit file
_SECONDS = 120  # limit for systemctl; reloading many units on a busy machine takes long
_MOST_PIDS = 1 << 22  # PID_MAX_LIMIT of the kernel
#: Settings that give a service mounts of its own, unless their value is one of NOTHING (exec_needs_mount_namespace in
#: src/core/execute.c of systemd).
PRIVATE = (
    *("PrivateMounts", "PrivateTmp", "PrivateDevices", "PrivateIPC", "ProtectSystem", "ProtectHome", "DynamicUser"),
    *("ProtectKernelTunables", "ProtectKernelModules", "ProtectKernelLogs", "ProtectControlGroups", "RootDirectory"),
    *("InaccessiblePaths", "ReadOnlyPaths", "ReadWritePaths", "ExecPaths", "NoExecPaths", "TemporaryFileSystem"),
    *("MountFlags", "RootImage"),
)
NOTHING = view.NOTHING
_COMMANDS = ("ExecStartPre", "ExecStart", "ExecStartPost")
_SETTINGS = tuple(dict.fromkeys((*view.SETTINGS, *PRIVATE, "User", "CapabilityBoundingSet")))


@dataclass(frozen=True, slots=True)
class Service:
    """A service: its full *name*, the *programs* that it starts, and the *pid* of its running process, 0 without one.

    *environment* is the environment that the unit sets.  *members* are the services that are part of it (PartOf=), as
    those of the clusters are of postgresql.service.  *path* are the directories where a program without one is searched
    for.  *settings* are those that decide which files it sees (`hugealign.services.view`), and as whom it runs.
    *commands* are what it executes, with words and before and after its program, as text, and *starts* those of them
    that start its program.
    """

    name: str
    programs: tuple[str, ...]
    pid: int = 0
    environment: str = ""
    members: tuple[str, ...] = ()
    path: tuple[str, ...] = PROGRAM_DIRECTORIES
    settings: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()


def full_name(unit: str) -> str:
    """Return the full name of the service *unit*: of an alias, that of the service itself, unless the alias is enabled.

    Version 1.0 enabled aliases by their own names.  Raises UsageError, RefusalError.
    """
    if refusal := unitnames.refusal(unit):
        raise RefusalError.of(refusal)
    name, typed = unitnames.service(unit), f"{unitnames.stem(unit)}.service"
    if name != typed and any(map(os.path.lexists, dropins.paths(typed))):
        name = typed
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise UsageError("not the name of a service")
    return name


def _unknown(unit: str) -> RefusalError:
    """Return the error for a *unit* that does not exist."""
    paths = [path for place in UNIT_DIRECTORIES for path in glob.glob(f"{place}/*.service")]
    known = [name for path in paths if not unitnames.is_template(name := unitnames.stem(os.path.basename(path)))]
    near = near_service(unit) or nearest(unitnames.stem(unit), known)
    remedy = None
    if not near and naming.is_number(unit):
        remedy = Remedy("process", ("hugealign", "ps", unit))
    elif not near and naming.named(unit, pids()):
        remedy = Remedy("start", ("hugealign", "run", "--", unit), ARGUMENTS)
    return RefusalError("service.unknown", remedy, near=near)


def near_service(unit: str) -> str:
    """Return the service that *unit* may mean, which is a PID or the name of a program; empty if none is known."""
    near = naming.near_service(unit)
    return near if near != unitnames.service(unit) else ""


def query(unit: str, named: bool = False) -> Service:
    """Return what is known of the service *unit*.  Raises HugealignError.

    If what it runs was *named* otherwise, programs that cannot be read from its unit are left out.
    """
    name = full_name(unit)
    if manager_runs():
        return _shown(name, unit)
    text = "\n".join(_files(name))
    if not text:
        raise _unknown(unit)
    settings = {key: " ".join(_values(text, key)) for key in _SETTINGS}
    for key, value in settings.items():
        if "%" in value.replace("%%", ""):
            raise RefusalError("service.mounts-unread", setting=key, value=value)
        settings[key] = value.replace("%%", "%")
    path = tuple(" ".join(_values(text, "ExecSearchPath")).replace(":", " ").split()) or PROGRAM_DIRECTORIES
    variables = "\n".join(_values(text, "Environment"))
    commands = tuple(value for key in _COMMANDS for value in _values(text, key))
    programs = tuple(_programs(text, named))
    starts = tuple(_values(text, "ExecStart"))
    return Service(
        name, programs, environment=variables, path=path, settings=settings, commands=commands, starts=starts
    )


def exists(name: str) -> bool:
    """Return whether the system has the service *name*."""
    try:
        query(name, named=True)
    except RefusalError as error:
        return error.diagnosis.code != "service.unknown"
    except HugealignError:
        return True
    return True


def members(name: str) -> tuple[str, ...]:
    """Return the services whose files say that they are part of *name*, templates among them."""
    units = sorted({os.path.basename(path) for place in UNIT_DIRECTORIES for path in glob.glob(f"{place}/*.service")})
    parts = []
    for unit in units:
        with suppress(HugealignError):
            if name in " ".join(_values("\n".join(_files(unit)), "PartOf", "Unit")).split():
                parts.append(unit)
    return tuple(parts)


def starts_early(name: str) -> bool:
    """Say whether the unit *name* starts before the units that other services wait for.  Raises HugealignError.

    systemd-journald does (DefaultDependencies=no).  If such a unit waited for our helper service, which waits for it,
    the manager would drop one of them at boot.
    """
    values = _values("\n".join(_files(name)), "DefaultDependencies", "Unit")
    return bool(values) and values[-1].lower() in ("no", "n", "false", "f", "off", "0")


def manager_runs() -> bool:
    """Return whether systemd is the manager of this system (sd_booted(3))."""
    return os.path.isdir("/run/systemd/system")


def restart(name: str, *, only_running: bool = False) -> None:
    """Restart the service *name*, or, unless *only_running*, start it.  Raises HugealignError."""
    systemctl("try-restart" if only_running else "restart", "--", name)


def systemctl(*words: str) -> str:
    """Return the output of systemctl.  Raises HugealignError."""
    try:
        done = finished(["systemctl", "--no-pager", *words], _SECONDS)
    except TimeoutError as error:
        raise DiagnosedError("service.manager", command=words[0], seconds=_SECONDS) from error
    except OSError as error:
        raise DiagnosedError("service.manager", command=words[0], error=error_name(error)) from error
    if done.returncode:
        output = next(iter(done.stderr.strip().splitlines()), "")
        raise DiagnosedError("service.manager", command=words[0], status=done.returncode, output=output)
    return done.stdout


def _shown(name: str, unit: str) -> Service:
    wanted = ("LoadState", *_COMMANDS, "MainPID", "Environment", "ConsistsOf", "ExecSearchPath", *_SETTINGS)
    output = systemctl("show", "-p", ",".join(wanted), "--", name)
    values: dict[str, list[str]] = {}
    for line in output.splitlines():
        key, _, value = line.partition("=")
        values.setdefault(key, []).append(value)
    if values.get("LoadState") != ["loaded"]:
        raise _unknown(unit)
    # { path=/usr/sbin/mariadbd ; argv[]=/usr/sbin/mariadbd $OPTIONS ; … }
    paths = [value[len("{ path=") :].partition(" ; argv[]=")[0] for value in values.get("ExecStart", ())]
    pid = decimal(values.get("MainPID", ["0"])[0], _MOST_PIDS, "MainPID")
    members = tuple(unit for unit in " ".join(values.get("ConsistsOf", ())).split() if _NAME.fullmatch(unit))
    path = tuple(" ".join(values.get("ExecSearchPath", ())).replace(":", " ").split()) or PROGRAM_DIRECTORIES
    settings = {key: " ".join(values.get(key, ())) for key in _SETTINGS}
    variables = " ".join(values.get("Environment", ()))

    def words(key: str) -> Iterator[str]:
        for value in values.get(key, ()):
            yield value.partition(" ; argv[]=")[2].partition(" ; ignore_errors=")[0]

    commands = tuple(command for key in _COMMANDS for command in words(key))
    programs, starts = tuple(dict.fromkeys(paths)), tuple(words("ExecStart"))
    return Service(name, programs, pid, variables, members, path, settings, commands, starts)


def _files(name: str) -> Iterator[str]:
    """Yield the texts of the unit *name* and its drop-ins, in the order in which they apply."""
    template = re.sub("@.*", "@.service", name)
    names = dict.fromkeys((name, template))
    unit = next((p for n in names for place in UNIT_DIRECTORIES if os.path.exists(p := f"{place}/{n}")), "")
    if not unit:
        return
    drop_ins: Mapping[str, str] = {
        os.path.basename(path): path
        for n in reversed(names)
        for place in reversed(UNIT_DIRECTORIES)
        for path in glob.glob(f"{glob.escape(f'{place}/{n}.d')}/*.conf")
    }
    for path in (unit, *(drop_ins[key] for key in sorted(drop_ins))):
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                yield file.read(_LIMIT)
        except OSError as error:
            raise DiagnosedError("service.unit-file", file=path, error=error_name(error)) from error


def _values(text: str, key: str, of: str = "Service") -> list[str]:
    """Return the values of *key* in the section *of* units; an empty value resets those before it."""
    values: list[str] = []
    section = ""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        words = line.strip()
        if words.startswith("["):
            section = words
        name, equals, value = (part.strip() for part in words.partition("="))
        if section == f"[{of}]" and equals and name == key:
            values = [*values, value] if value else []
    return values


def _programs(text: str, named: bool) -> Iterator[str]:
    """Yield the paths of the programs in ``ExecStart=``.  Raises RefusalError for one that cannot be read."""
    for value in _values(text, "ExecStart"):
        match = re.match(r"[-@:+!|]*(?:\"([^\"\\]*)\"|'([^'\\]*)'|([^\s\"'\\]+))(?:\s|$)", value)
        path = next((part for part in match.groups() if part), "") if match else ""
        if not path or "%" in path.replace("%%", ""):
            if named:
                continue
            raise RefusalError("service.start-unread", Remedy("name-program"), value=value)
        yield path.replace("%%", "%")
