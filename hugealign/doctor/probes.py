"""Look at this machine: every read is bounded, and a child with a time limit does everything that may hang."""

import errno
import glob
import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress

from hugealign.diagnosis.values import unpacked
from hugealign.doctor.checks import COMPILER, PERF, Check, MachineFacts, Place, check
from hugealign.errors import HugealignError
from hugealign.io import native
from hugealign.io.execution import which
from hugealign.pagecache import measure, warming
from hugealign.process import containers, procfs
from hugealign.system import budget, children, hooks, kernel, memory, namespace, textcosts

#: Seconds to mount something, and for all experiments.
MOUNTING_LIMIT, TRIALS_LIMIT = 3.0, 10.0
_BY_ALIGNMENT = (2, 35)  # of glibc: 163f625cf9 "elf: Remove excessive p_align check on PT_LOAD segments"
_LARGEST_EXPERIMENT = 32 << 20
_WINDOWS = 2
_TOOLS = {COMPILER: native.COMPILERS, PERF: ("perf",)}
_FILTER = "2"  # SECCOMP_MODE_FILTER in include/uapi/linux/seccomp.h
_NO_ANSWER = {"error": "ETIMEDOUT"}


def diagnose(paths: Sequence[str] = (os.curdir,)) -> list[Check]:
    """Return what `hugealign doctor` finds on this machine and on the file systems of *paths*, also what is fine."""
    return check(gather(paths))


def gather(paths: Sequence[str]) -> MachineFacts:
    """Return the facts about this machine and the file systems of *paths*."""
    page_size = kernel.huge_page_size()
    trials = [children.function(lambda path=path: trial(path)) for path in paths]  # type: ignore[misc]
    query, mounting = budget.query(), children.function(_no_mounts)
    children.collect([mounting], MOUNTING_LIMIT)
    children.collect(trials, TRIALS_LIMIT)
    blocks = memory.free_huge_pages()
    refused = ("process.ended", "", {}, None) if mounting.value is None else mounting.value
    return MachineFacts(
        release=os.uname().release,
        machine=os.uname().machine,
        page_size=page_size,
        modes=_modes(),
        disabled=measure.huge_pages_disabled(),
        no_mounts=unpacked(refused) if refused else None,
        limit=memory.limit(),
        free=None if blocks is None else blocks * page_size,
        loader=unaligned_loader(_c_library()),
        processor=budget.reported(query),
        costs=textcosts.known(),
        places=tuple(Place(path, **(trial.value or _NO_ANSWER)) for path, trial in zip(paths, trials, strict=True)),
        unread_hooks=tuple(_unread_hooks(hook_places := tuple(hooks.looked_in()))),
        hook_places=hook_places,
        unhooked=tuple(containers.unhooked()),
        missing=tuple(name for name, names in _TOOLS.items() if not any(map(which, names))),
        filtered=_filtered(),
        variables={name: value for name, value in os.environ.items() if name.startswith("HUGEALIGN_")},
    )


def _filtered() -> bool:
    """Return whether seccomp filters our system calls; not if /proc cannot be seen."""
    with suppress(OSError):
        return procfs.status(f"{procfs.PROC}/self/status").get("Seccomp") == _FILTER
    return False


def _unread_hooks(places: Sequence[str]) -> Iterator[str]:
    """Yield our hooks for containers that are not in *places*, if podman is here to look for them."""
    for path in hooks.files() if shutil.which("podman") else ():
        with suppress(HugealignError):
            if os.path.dirname(path) not in places and hooks.is_ours(hooks.parsed(path).get("hook")):
                yield path


def _no_mounts() -> object:
    refusal = namespace.refusal()
    return refusal.packed() if refusal else ()


def _modes() -> dict[str, str] | None:
    """Return the settings for huge pages; None if /sys cannot be seen."""
    if kernel.has_thp() is None:
        return None
    modes = {name: kernel.thp_mode(name) for name in ("enabled", "shmem_enabled")}
    return {name: mode for name, mode in modes.items() if mode}


def _c_library() -> str:
    """Return the name and the version of the C library that runs us."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):  # only glibc knows the name
        return "musl" if glob.glob("/lib/ld-musl-*.so.1") else ""


def unaligned_loader(library: str) -> str:
    """Return the C *library* if its loader places libraries without regard to their alignment, else ""."""
    name, _, version = library.partition(" ")
    if name == "glibc" and tuple(map(int, re.findall(r"\d+", version))) >= _BY_ALIGNMENT:
        return ""
    return library


def trial(path: str) -> dict[str, int | str]:
    """Write a file of some windows on the file system of *path*, warm it, and return the fields of a `Place`."""
    fields: dict[str, int | str] = {}
    try:
        info = os.stat(path)
        directory = path if stat.S_ISDIR(info.st_mode) else os.path.dirname(path) or "."
        fields["file_system"] = kernel.file_system(info.st_dev) or ""
        fields["mount_point"] = _mount_point(directory)
        if kernel.huge_page_size() > _LARGEST_EXPERIMENT:
            return {**fields, "error": "EFBIG"}
        os.stat("/proc/self/fd")  # without it nothing can be measured
        with measure.huge_pages_allowed():
            huge, place = _tried(directory, info.st_dev)
        fields |= {"windows": _WINDOWS, "huge": huge, "tried_in": "" if place == directory else place}
    except OSError as error:
        fields["error"] = errno.errorcode.get(error.errno or 0, "")
    except (HugealignError, ValueError):  # ValueError: a NUL in the path
        fields["error"] = "EINVAL"
    return fields


def _tried(directory: str, device: int) -> tuple[int, str]:
    """Try in *directory*, or elsewhere on the same device if that is not writable; return the huge windows and where.

    Raises OSError, RefusalError.
    """
    refusal = OSError(errno.EXDEV, "")
    places = [directory, os.path.expanduser("~"), "/var/tmp", "/tmp"]  # noqa: S108 - nameless
    with suppress(FileNotFoundError):  # the current directory was removed
        places.insert(1, os.getcwd())
    for place in places:
        try:
            if os.stat(place).st_dev == device:
                return warming.trial(place, _WINDOWS), place
        except OSError as error:
            refusal = error if place == directory else refusal
    raise refusal


def _mount_point(directory: str) -> str:
    place = os.path.realpath(directory)
    while not os.path.ismount(place):
        place = os.path.dirname(place)
    return place
