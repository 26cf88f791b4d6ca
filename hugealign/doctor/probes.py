"""Look at this machine: every read is bounded, and a child with a time limit does everything that may hang."""

import ctypes
import glob
import gzip
import json
import os
import pickle
import platform
import re
import shutil
import stat
import tempfile
import zlib
from collections.abc import Sequence
from contextlib import suppress

from hugealign.doctor.facts import (
    COMPILERS,
    LINKERS,
    THP,
    Kernel,
    Loader,
    MachineFacts,
    MemoryFacts,
    Perf,
    Place,
    Thp,
)
from hugealign.errors import HugealignError, cause
from hugealign.io.descriptors import using
from hugealign.pagecache import measure, warming
from hugealign.system import children, kernel, memory, namespace
from hugealign.system import this_processor as processor
from hugealign.system.this_processor import Processor

#: Seconds for all commands together, and for all experiments.
COMMANDS_LIMIT, TRIALS_LIMIT = 3.0, 10.0
_TOOLS = COMPILERS + LINKERS
_LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
_PR_GET_THP_DISABLE = 42
_LARGEST_CONFIG = 4 << 20
_LARGEST_EXPERIMENT = 32 << 20
_WINDOWS = 2


class TrialError(HugealignError):
    """The experiment on a file system cannot be done."""


def look(paths: Sequence[str], root: str = "") -> MachineFacts:
    """Return the facts about this machine and the file systems of *paths*.

    For tests, *root* is put before every path below /proc, /sys and /boot.
    """
    page_size = kernel.huge_page_size(f"{root}{THP}/hpage_pmd_size")
    trials = [children.function(lambda path=path: _trial(path, page_size)) for path in paths]  # type: ignore[misc]
    asked = children.function(lambda: pickle.dumps(processor.look(root=root)))
    mounting = children.function(lambda: json.dumps(namespace.refusal()).encode())
    loader = next((path for path in _LOADERS if os.access(path, os.X_OK)), "")
    musl = next(iter(sorted(glob.glob("/lib/ld-musl-*.so.1"))), "")
    perf = shutil.which("perf")
    commands: dict[str, Sequence[str]] = {
        "loader": [loader, "--version"],
        "tunables": [loader, "--list-tunables"],
        "musl": [musl],
        "perf": [perf or "", "stat", "-x,", "-e", "iTLB-load-misses", "true"],
        **{name: [path, "--version"] for name in _TOOLS if (path := shutil.which(name))},
    }
    started = {name: child for name, words in commands.items() if words[0] and (child := children.command(words))}
    children.collect([asked, mounting, *started.values()], COMMANDS_LIMIT)
    children.collect(trials, TRIALS_LIMIT)
    said = {name: child.text for name, child in started.items()}
    config, config_from = kernel_config(root, os.uname().release)
    return MachineFacts(
        kernel=Kernel(
            release=os.uname().release,
            machine=platform.machine(),
            page_size=page_size,
            sysfs=os.path.isdir(f"{root}/sys/kernel"),
            procfs=os.path.isdir(f"{root}/proc/self"),
            config=config,
            config_from=config_from,
        ),
        python=platform.python_version(),
        thp=_thp(root),
        loader=Loader(
            glibc=glibc_version(said.get("loader", "")),
            tunable=tunable(said.get("tunables", "")),
            musl=_line_after(said.get("musl", ""), "Version "),
        ),
        memory=MemoryFacts(memory.limit(), memory.used(), memory.free_huge_pages()),
        places=tuple(_place(path, trial.output) for path, trial in zip(paths, trials, strict=True)),
        no_mounts=_no_mounts(mounting.output),
        processor=_processor(asked.output),
        perf=_perf(perf, started.get("perf"), read(f"{root}/proc/sys/kernel/perf_event_paranoid")),
        tools={
            name: (said[name].strip().splitlines() or ["says nothing"])[0][:80]
            for name in _TOOLS
            if name in started and not (started[name].status is None and not said[name])
        },
        variables={name: value for name, value in os.environ.items() if name.startswith("HUGEALIGN_")},
    )


def _thp(root: str) -> Thp:
    words = read(f"{root}/proc/cmdline").split()
    sizes = [name for name in _entries(f"{root}{THP}") if name.startswith("hugepages-")]
    return Thp(
        modes=_settings(f"{root}{THP}"),
        khugepaged=_settings(f"{root}{THP}/khugepaged"),
        sizes={name: _chosen(read(f"{root}{THP}/{name}/enabled")) for name in sizes},
        boot=" ".join(word for word in words if word.startswith("transparent_h")),
        disabled=thp_disabled(),
    )


def read(path: str, limit: int = 1 << 16) -> str:
    """Return the text of a small file, stripped of white space; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(limit).strip()
    except (OSError, ValueError):
        return ""


def thp_disabled() -> int | None:
    """Return the value of PR_SET_THP_DISABLE that we inherited; None if the kernel does not answer."""
    answer = ctypes.CDLL(None, use_errno=True).prctl(_PR_GET_THP_DISABLE, *[ctypes.c_ulong(0)] * 4)
    return None if answer < 0 else int(answer)


def kernel_config(root: str, release: str) -> tuple[dict[str, str] | None, str]:
    """Return the options of this kernel and the file they come from, or None."""
    for path in ("/proc/config.gz", f"/boot/config-{release}", f"/lib/modules/{release}/config"):
        try:
            opener = gzip.open if path.endswith(".gz") else open
            with opener(root + path, "rb") as file:
                text = file.read(_LARGEST_CONFIG).decode("ascii", "replace")
        except (OSError, EOFError, zlib.error):
            continue
        return dict(re.findall(r"^CONFIG_(\w+)=(\S+)$", text, re.MULTILINE)), path
    return None, ""


def glibc_version(said: str) -> tuple[int, int] | None:
    """Return the version in the output of ``ld.so --version`` (2.33 and newer); ``getconf`` would know older ones."""
    if match := re.search(r"GLIBC (\d+)\.(\d+)|version (\d+)\.(\d+)", said):
        major, minor = (g for g in match.groups() if g is not None)
        return int(major), int(minor)
    name, version = platform.libc_ver()
    if name == "glibc" and (match := re.match(r"(\d+)\.(\d+)", version)):
        return int(match[1]), int(match[2])
    return None


def tunable(said: str) -> str | None:
    """Return the line of ``ld.so --list-tunables`` about glibc.elf.thp, empty without it; None without a list."""
    if "glibc." not in said:
        return None
    return next((line for line in said.splitlines() if line.startswith("glibc.elf.thp:")), "")


def _trial(path: str, page_size: int) -> bytes:
    """Write a file of some windows on the file system of *path*, warm it, and return the result as JSON."""
    found: dict[str, object] = {}
    try:
        info = os.stat(path)
        directory = path if stat.S_ISDIR(info.st_mode) else os.path.dirname(path) or "."
        device = info.st_dev
        found["file_system"] = kernel.file_system(device) or ""
        found["mount_point"] = _mount_point(directory)
        if page_size > _LARGEST_EXPERIMENT:
            raise TrialError(f"the huge page of this kernel is {page_size >> 20} MiB, too much to write")
        if not os.path.isdir("/proc/self/fd"):
            raise TrialError("without /proc nothing can be measured")
        fd, place = _scratch(directory, device)
        found["tried_in"] = "" if place == directory else place
        with using(fd):
            for _ in range(_WINDOWS * page_size >> 20):
                os.write(fd, b"\xcc" * (1 << 20))
            os.fsync(fd)
            # The kernel treats a file that is open for writing differently.
            reading = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
        with measure.huge_pages_allowed():
            huge = warming.warm(reading, range(0, _WINDOWS * page_size, page_size), page_size).huge
        found |= {"windows": _WINDOWS, "huge": sum(huge)}
    except OSError as error:
        found["reason"] = cause(error)
    except (HugealignError, ValueError) as error:  # ValueError: a NUL in the path
        found["reason"] = str(error)
    return json.dumps(found).encode()


def _scratch(directory: str, device: int) -> tuple[int, str]:
    """Open a nameless file in *directory*, or elsewhere on the same device if that is not writable."""
    refusal: OSError | None = None
    places = [directory, os.path.expanduser("~"), "/var/tmp", "/tmp"]  # noqa: S108 - nameless
    with suppress(FileNotFoundError):  # the current directory was removed
        places.insert(1, os.getcwd())
    for place in places:
        try:
            if os.stat(place).st_dev != device:
                continue
            try:
                return os.open(place, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600), place
            except (IsADirectoryError, OSError) as error:  # file systems without O_TMPFILE, such as older overlayfs
                if isinstance(error, PermissionError):
                    raise
                fd, name = tempfile.mkstemp(prefix=".hugealign-", dir=place)
                os.unlink(name)
                return fd, place
        except OSError as error:
            refusal = refusal or error
    raise TrialError(f"cannot write there: {refusal.strerror if refusal else 'it is another file system'}")


def _mount_point(directory: str) -> str:
    place = os.path.realpath(directory)
    while not os.path.ismount(place):
        place = os.path.dirname(place)
    return place


def _place(path: str, output: bytes) -> Place:
    try:
        return Place(path, **json.loads(output))
    except (ValueError, TypeError):
        return Place(path, reason=f"no answer from its file system in {TRIALS_LIMIT:.0f} s")


def _no_mounts(output: bytes) -> str | None:
    with suppress(ValueError):
        return str(json.loads(output))
    return None


def _processor(output: bytes) -> Processor:
    """Return what our child learnt about the processor, or what files say if the child died."""
    with suppress(EOFError, pickle.UnpicklingError):
        found: Processor = pickle.loads(output)  # noqa: S301 - of our own child
        return found
    return processor.from_files()


def _perf(path: str | None, tried: children.Child | None, paranoid: str) -> Perf:
    level = int(paranoid) if re.fullmatch(r"-?\d{1,3}", paranoid) else None
    return Perf(path or "", level, *counted(tried.text if tried else ""))


def counted(said: str) -> tuple[bool | None, str]:
    """Return whether perf could count, judging by what it *said* (None if not tried), and its first line."""
    lines = [line for line in said.splitlines() if line.strip() not in ("", "Error:")]
    match = re.search(r"^([^,\n]*),[^,\n]*,iTLB-load-misses", said, re.MULTILINE)
    counts = match[1].isdecimal() if match else None
    if any(line.endswith("event is not supported.") for line in lines):  # perf 7
        counts = False
    return counts, lines[0].strip()[:80] if lines else ""


def _settings(directory: str) -> dict[str, str]:
    return {
        name: _chosen(read(f"{directory}/{name}"))
        for name in _entries(directory)
        if os.path.isfile(f"{directory}/{name}")
    }


def _entries(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _chosen(text: str) -> str:
    """Return ``madvise`` of ``always [madvise] never``."""
    match = re.search(r"\[([^\]]*)\]", text)
    return match[1] if match else text


def _line_after(text: str, prefix: str) -> str:
    return next((line.removeprefix(prefix)[:80] for line in text.splitlines() if line.startswith(prefix)), "")
