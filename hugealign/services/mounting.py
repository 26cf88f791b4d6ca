"""Whether a service mounts file systems that other processes use: they would not see these from a namespace of its own.

systemd disconnects that for good ("what's disconnected is disconnected", setup_namespace in src/core/namespace.c), also
with MountFlags=shared.  The kernel does not say who mounted something.  What is seen is a process with a FUSE
connection, and a mount point that appeared after the service started, that no unit describes, and that lies where a
process with CAP_SYS_ADMIN of the service has files open, or what its command names.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import Diagnosis
from hugealign.errors import HugealignError
from hugealign.io.numbers import decimal
from hugealign.io.regular import contains
from hugealign.process import groups, procfs
from hugealign.run import store
from hugealign.services import programs as services
from hugealign.services import view
from hugealign.services.programs import NOTHING, PRIVATE, Service

_FUSE = os.makedev(10, 229)  # Documentation/admin-guide/devices.txt
#: What a program contains that can mount: names of functions of the C library and of Go's; without privileges, of FUSE.
_CALLS = (b"\0mount\0", b"\0move_mount\0", b"syscall.Mount\0", b"unix.Mount\0")
_FUSE_CALLS = (b"fusermount", b"libfuse")
#: A command that mounts, always or by its arguments, as `rclone mount`.
_MOUNTING = re.compile(r"(^|[\s;&|\"'(])([^\s'\"]*bin/)?(mount|mount\.[a-z0-9.]+|fusermount3?|bindfs|sshfs)\s")
_TABLE = "/proc/self/mountinfo"  # the source that systemd names for a mount that it knows only from the kernel
#: Where each application has a directory.
_SHARED = (("", "var", "lib"), ("", "run"), ("", "var", "run"))
_CAP_SYS_ADMIN = 21  # include/uapi/linux/capability.h
_MOST_TIME = 1 << 63  # microseconds
_LIMIT = 1 << 16  # bytes of a command line


def check(service: Service, files: Iterable[str]) -> list[Diagnosis]:
    """Return a warning if the *service*, which runs from *files*, may mount something for others.

    Raises RefusalError if it was seen to do so.
    """
    if place := mounted(service):
        raise RefusalError("service.mounts", mount=place)
    root = service.settings.get("User", "") in ("", "0", "root")
    capable = "cap_sys_admin" in (service.settings.get("CapabilityBoundingSet", "").lower() or "cap_sys_admin")
    calls = (*_FUSE_CALLS, *(_CALLS if root and capable else ()))
    if not _is_private(service) and (able := [path for path in files if contains(path, calls)]):
        return [Diagnosis("service.may-mount", service.name, {"program": able[0]})]
    return []


def mounted(service: Service) -> str:
    """Return what the *service* mounts for others: a command of its unit, or what is seen; empty if nothing is."""
    if _is_private(service):
        return ""
    for command in service.commands:
        if _MOUNTING.search(command):
            return command
    if not service.pid or not _shares_mounts(service.pid):
        return ""
    used: set[str] = set()
    for process in _processes(service.name):
        opened = list(_open_files(process))
        if any(device == _FUSE for _, device in opened):
            return "FUSE"
        if _may_mount(process):
            used |= {path for path, _ in opened if path.startswith("/")} | set(_words(process))
    since = _mounted_since(service.name) if used else ()
    return next((place for place in since if _is_used(place, used)), "")


def _is_private(service: Service) -> bool:
    """Return whether others do not see the mounts of the *service* in any case."""
    values = {name: service.settings.get(name, "").lower() for name in PRIVATE}
    private = any(value not in NOTHING and (name, value) != ("MountFlags", "shared") for name, value in values.items())
    return private or view.binds(service.settings, store.DEFAULT)


def _is_used(place: str, used: Iterable[str]) -> bool:
    """Return whether one of the paths *used* is *place*, or below the same directory of an application."""
    parts = place.split("/")
    depth = next((len(at) + 1 for at in _SHARED if tuple(parts[: len(at)]) == at), 0)
    top = "/".join(parts[:depth]) + "/" if 0 < depth < len(parts) else f"{place}/"
    return any(f"{path}/".startswith(top) for path in used)


def _shares_mounts(pid: int) -> bool:
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/1/ns/mnt")
    return False


def _processes(unit: str) -> Iterator[str]:
    for name in os.listdir("/proc"):
        if name.isdecimal() and groups.service(groups.of_process(int(name))) == unit:
            yield name


def _open_files(pid: str) -> Iterator[tuple[str, int]]:
    """Yield what *pid* has open: the path, and the device that it is, 0 for anything but a device."""
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                info = os.stat(path := f"/proc/{pid}/fd/{name}")
                yield os.readlink(path), info.st_rdev if stat.S_ISCHR(info.st_mode) else 0


def _may_mount(pid: str) -> bool:
    with suppress(OSError, ValueError):
        return bool(int(procfs.status(f"{procfs.PROC}/{pid}/status")["CapEff"], 16) >> _CAP_SYS_ADMIN & 1)
    return False


def _words(pid: str) -> Iterator[str]:
    """Yield the words of the command of *pid*, and what stands behind an equals sign or a colon in them."""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        for word in os.fsdecode(file.read(_LIMIT)).split("\0"):
            for part in (word, word.partition("=")[2], word.rpartition(":")[2]):
                if part.startswith("/"):
                    yield os.path.normpath(part)


def _mounted_since(unit: str) -> Iterator[str]:
    """Yield where something was mounted, which no unit describes, since the service *unit* started."""
    with suppress(HugealignError):
        shown = _shown("InactiveExitTimestampMonotonic", unit)
        started = _time(shown[0], "InactiveExitTimestampMonotonic")
        for values in _shown("Where,FragmentPath,SourcePath,ActiveEnterTimestampMonotonic", "*.mount"):
            described = values.get("FragmentPath") or values.get("SourcePath") not in ("", _TABLE)
            if not described and started and _time(values, "ActiveEnterTimestampMonotonic") > started:
                yield values.get("Where", "")


def _shown(properties: str, units: str) -> list[dict[str, str]]:
    output = services.systemctl("show", "-p", properties, "--", units)
    parts = [block.splitlines() for block in output.split("\n\n")]
    return [dict(line.split("=", 1) for line in part if "=" in line) for part in parts]


def _time(values: Mapping[str, str], name: str) -> int:
    return decimal(values.get(name) or "0", _MOST_TIME, name)
