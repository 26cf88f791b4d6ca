"""Judge the facts about a machine: facts in, conditions out.  Pure."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from hugealign import settings
from hugealign.doctor.facts import COMPILERS, LINKERS, MachineFacts, Place
from hugealign.errors import UsageError
from hugealign.io.units import format_size, printable

#: The statuses of a condition: fine; in the way of huge text; worth knowing but not in the way; unknown.
OK, OBSTACLE, NOTE, UNKNOWN = "ok", "obstacle", "note", "unknown"

_LIFT_THP_DISABLE = (
    "python3 -c 'import ctypes, os, sys; ctypes.CDLL(None).prctl(41, 0, 0, 0, 0); "
    "os.execvp(sys.argv[1], sys.argv[1:])' PROGRAM"
)
_COMPACT = "echo 1 | sudo tee /proc/sys/vm/compact_memory"


_MODES = ("enabled", "defrag", "shmem_enabled")
#: The answer of PR_GET_THP_DISABLE if all is off.  In Linux 6.18, 3 means: except memory with MADV_HUGEPAGE.
_DISABLED = 1

Data = dict[str, str | int | bool | None]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition for huge text, and whether this machine meets it.

    *id* is ``area.what``; *mend* is the command that fixes it, or how to fix it; *data* holds the numbers behind it.
    """

    id: str
    status: str
    message: str
    mend: str = ""
    data: Data = field(default_factory=dict)


def check(facts: MachineFacts) -> list[Condition]:
    """Return all conditions, those about the kernel first."""
    found = [
        *_kernel(facts),
        *_thp(facts),
        *(_place(facts, place) for place in facts.places),
        *_staging(facts),
        *_memory(facts),
        *_loader(facts),
        *_processor(facts),
        *_perf(facts),
        *_tools(facts),
        *_environment(facts),
    ]
    return [
        Condition(
            f.id,
            f.status,
            printable(f.message),
            printable(f.mend),
            {key: printable(value) if isinstance(value, str) else value for key, value in f.data.items()},
        )
        for f in found
    ]


def exit_status(found: list[Condition]) -> int:
    """Return 1 if something is in the way, 3 if an experiment could not be done, else 0."""
    if any(f.status == OBSTACLE for f in found):
        return 1
    return 3 if any(f.status == UNKNOWN and f.id == "place.folios" for f in found) else 0


def _release(facts: MachineFacts) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", facts.kernel.release)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _kernel(facts: MachineFacts) -> Iterator[Condition]:
    said = f"Linux {facts.kernel.release} ({facts.kernel.machine}), huge pages of {format_size(facts.kernel.page_size)}"
    if (0, 0) < _release(facts) < (5, 10):
        # ce81bb256a22 "fs/binfmt_elf: use PT_LOAD p_align values for suitable start address"
        yield Condition(
            "kernel.release",
            OBSTACLE,
            f"{said}: before 5.10 it starts position-independent programs off the grid",
            "link the program with -no-pie, or use Linux 5.10 or newer",
        )
    else:
        yield Condition("kernel.release", OK, said, data={"page_size": facts.kernel.page_size})
    config = facts.kernel.config
    option = None if config is None else config.get("TRANSPARENT_HUGEPAGE", "n")
    if facts.thp.modes or option == "y":
        yield Condition("kernel.thp", OK, "transparent huge pages are built in (CONFIG_TRANSPARENT_HUGEPAGE)")
    elif facts.kernel.sysfs or option == "n":
        yield Condition(
            "kernel.thp",
            OBSTACLE,
            "the kernel has no transparent huge pages",
            "boot a kernel with CONFIG_TRANSPARENT_HUGEPAGE=y, as distributions build them",
        )
    else:
        yield Condition(
            "kernel.thp", UNKNOWN, "transparent huge pages: neither /sys nor a kernel configuration to see them in"
        )
    if config is None:
        yield Condition("kernel.config", UNKNOWN, "no readable kernel configuration in /proc/config.gz, /boot or /lib")
        return
    read_only = config.get("READ_ONLY_THP_FOR_FS", "n")
    meaning = (
        "running text can be collapsed on any file system"
        if read_only == "y"
        else "huge text needs a file system with large folios, and no more"
    )
    data: Data = {"READ_ONLY_THP_FOR_FS": read_only}
    yield Condition(
        "kernel.config",
        OK if read_only == "y" else NOTE,
        f"READ_ONLY_THP_FOR_FS={read_only}: {meaning} ({facts.kernel.config_from})",
        data=data,
    )


def _thp(facts: MachineFacts) -> Iterator[Condition]:
    if facts.thp.modes:
        modes = {name: facts.thp.modes[name] for name in _MODES if name in facts.thp.modes}
        yield Condition(
            "thp.modes",
            OK,
            ", ".join(f"{name} {mode}" for name, mode in modes.items())
            + "; text that was warmed is huge in every mode, even never"
            + (f"; boot: {facts.thp.boot}" if facts.thp.boot else ""),
            data=dict(modes),
        )
    if facts.thp.sizes:
        on = [name.removeprefix("hugepages-") for name, mode in facts.thp.sizes.items() if mode not in ("never", "")]
        yield Condition(
            "thp.sizes", NOTE, f"sizes for anonymous memory: {', '.join(on) or 'none'}; they do not affect text"
        )
    if facts.thp.khugepaged:
        names = ("defrag", "pages_to_scan", "scan_sleep_millisecs", "max_ptes_none")
        shown = [f"{name} {facts.thp.khugepaged[name]}" for name in names if name in facts.thp.khugepaged]
        yield Condition("thp.khugepaged", NOTE, f"khugepaged: {', '.join(shown)}; warmed text does not need it")
    if facts.thp.disabled == _DISABLED:
        yield Condition(
            "thp.process",
            OBSTACLE,
            "huge pages are switched off for this process and what it starts (PR_SET_THP_DISABLE), by a parent of it",
            _LIFT_THP_DISABLE,
        )
    elif facts.thp.disabled:
        yield Condition(
            "thp.process",
            NOTE,
            "huge pages are switched off for this process where it does not ask for them (PR_SET_THP_DISABLE, as by "
            "MemoryTHP=madvise of systemd); text that was warmed is huge all the same",
        )
    elif facts.thp.disabled is None:
        yield Condition("thp.process", UNKNOWN, "whether huge pages are switched off for this process cannot be asked")
    else:
        yield Condition("thp.process", OK, "huge pages are not switched off for this process (PR_SET_THP_DISABLE)")


def _place(facts: MachineFacts, place: Place) -> Condition:
    where = f"{place.path}: {place.file_system}" if place.file_system else place.path
    data: Data = {
        "path": place.path,
        "file_system": place.file_system,
        "windows": place.windows,
        "huge": place.huge,
    }
    if place.huge is None:
        return Condition("place.folios", UNKNOWN, f"{where}: could not be tried: {place.reason}", data=data)
    tried = f" (tried in {place.tried_in})" if place.tried_in else ""
    if place.huge == place.windows:
        return Condition("place.folios", OK, f"{where} gives huge folios{tried}", data=data)
    lacking = f"{where}: {place.huge} of {place.windows} windows of a new file became huge{tried}"
    return Condition("place.folios", OBSTACLE, lacking, _mend_place(facts, place), data)


def _mend_place(facts: MachineFacts, place: Place) -> str:
    if place.huge or facts.memory.free_blocks == 0:
        return _COMPACT
    if place.file_system == "tmpfs":
        return f"sudo mount -o remount,huge=always {shlex.quote(place.mount_point)}"
    if facts.no_mounts == "":
        return "hugealign run -- COMMAND, or for a service: sudo hugealign enable UNIT"
    return "hugealign run --how=copy -- COMMAND"


def _staging(facts: MachineFacts) -> Iterator[Condition]:
    if facts.no_mounts is None:
        yield Condition("place.mounts", UNKNOWN, "whether this process may mount copies of its own could not be tried")
    elif facts.no_mounts:
        said = f"this process may mount no copies of its own ({facts.no_mounts}): hugealign run cannot stage"
        yield Condition("place.mounts", NOTE, said)
    else:
        said = "this process may mount copies of its own: hugealign run makes text huge on any file system"
        yield Condition("place.mounts", OK, said)


def _memory(facts: MachineFacts) -> Iterator[Condition]:
    if facts.memory.limit is not None:
        used = "" if facts.memory.used is None else f", {format_size(facts.memory.used)} in use with page cache"
        small = facts.memory.limit < 4 * facts.kernel.page_size
        yield Condition(
            "memory.cgroup",
            OBSTACLE if small else OK,
            f"control group: {format_size(facts.memory.limit)} of memory allowed{used}",
            "sudo systemctl set-property --runtime UNIT MemoryMax=1G" if small else "",
            {"limit": facts.memory.limit, "used": facts.memory.used},
        )
    elif facts.kernel.procfs:
        yield Condition("memory.cgroup", OK, "no memory limit of a control group")
    if facts.memory.free_blocks is None:
        yield Condition("memory.free_blocks", UNKNOWN, "fragmentation: no /proc/buddyinfo")
    else:
        size = format_size(facts.memory.free_blocks * facts.kernel.page_size)
        yield Condition(
            "memory.free_blocks",
            OK if facts.memory.free_blocks else NOTE,
            f"{facts.memory.free_blocks} huge pages ({size}) free in one piece"
            + ("" if facts.memory.free_blocks else "; the kernel has to move memory for each"),
            "" if facts.memory.free_blocks else _COMPACT,
            {"huge_pages": facts.memory.free_blocks},
        )


def _loader(facts: MachineFacts) -> Iterator[Condition]:
    if facts.loader.glibc:
        version = "glibc {}.{}".format(*facts.loader.glibc)
        # 163f625cf9 "elf: Remove excessive p_align check on PT_LOAD segments", 2.35
        honours = facts.loader.glibc >= (2, 35)
        yield Condition(
            "loader.glibc",
            OK if honours else NOTE,
            f"{version} places shared libraries "
            + ("by their alignment (2.35 and newer)" if honours else "without regard to their alignment"),
            data={"version": "{}.{}".format(*facts.loader.glibc)},
        )
        if facts.loader.tunable is not None:
            yield Condition(
                "loader.thp",
                OK if facts.loader.tunable else NOTE,
                facts.loader.tunable or "no tunable glibc.elf.thp; not needed for what hugealign linked",
            )
    if facts.loader.musl:
        yield Condition(
            "loader.musl", NOTE, f"musl {facts.loader.musl} places shared libraries without regard to their alignment"
        )
    if not facts.loader.glibc and not facts.loader.musl:
        yield Condition("loader.glibc", UNKNOWN, "no loader of glibc or musl found")


def _processor(facts: MachineFacts) -> Iterator[Condition]:
    processor = facts.processor
    if processor is None or not (processor.brand or processor.cpu):
        yield Condition("cpu.itlb", UNKNOWN, "the processor cannot be asked")
        return
    cpu, tlbs = processor.cpu, processor.tlbs
    said = tlbs.l1_2m if tlbs else None
    entries = said.entries if said else cpu.itlb_2m if cpu else None
    source = f"says {processor.how}" if said else "says the table" if entries else "not in the table"
    yield Condition(
        "cpu.itlb",
        OK if entries else UNKNOWN,
        f"{processor.brand or 'processor'}: {entries or 'unknown number of'} iTLB entries for 2 MiB pages, {source}",
        data={
            "brand": processor.brand,
            "cpu": cpu.name if cpu else None,
            "itlb_2m_cpuid": said.entries if said else None,
            "itlb_2m_table": cpu.itlb_2m if cpu else None,
            "stlb_2m": cpu.stlb_2m if cpu else None,
        },
    )
    if cpu:
        known, second = (tlb or "not published" for tlb in (cpu.l1_2m, cpu.l2_2m))
        agree = not (said and cpu.itlb_2m) or said.entries == cpu.itlb_2m
        yield Condition(
            "cpu.table",
            OK if agree else NOTE,
            f"table, {cpu.name}: for 2 MiB {known}; second level {second}; from {cpu.origin}: {cpu.source}",
        )
    if cpu and cpu.stlb_2m == 0:
        yield Condition(
            "cpu.stlb",
            NOTE,
            f"{cpu.name} keeps no 2 MiB translations in its second level: more than {entries} hot windows cost walks",
            "hugealign warm --windows N FILE",
        )
    if processor.guest:
        yield Condition("cpu.guest", NOTE, "a virtual machine; its host may still use small pages underneath")


def _perf(facts: MachineFacts) -> Iterator[Condition]:
    perf = facts.perf
    if perf is None or not perf.path:
        yield Condition("perf.counters", NOTE, "no perf on PATH; only measuring needs it")
        return
    level = "" if perf.paranoid is None else f", perf_event_paranoid {perf.paranoid}"
    data: Data = {"counts": perf.counts, "paranoid": perf.paranoid}
    if perf.counts:
        yield Condition("perf.counters", OK, f"{perf.path} counts iTLB-load-misses{level}", data=data)
    elif perf.paranoid is not None and perf.paranoid > 2 and perf.counts is None:
        mend = "sudo sysctl kernel.perf_event_paranoid=2"
        yield Condition("perf.counters", NOTE, f"{perf.path} may not count{level}", mend, data)
    else:
        reason = "no hardware counter for it" if perf.counts is False else perf.said or "says nothing"
        yield Condition("perf.counters", NOTE, f"{perf.path} cannot count iTLB-load-misses: {reason}{level}", data=data)


def _tools(facts: MachineFacts) -> Iterator[Condition]:
    for kind, names in (("compilers", COMPILERS), ("linkers", LINKERS)):
        found = {name: facts.tools[name] for name in names if name in facts.tools}
        versions = ", ".join(f"{name} {_version(said)}" for name, said in found.items())
        missing = f"no {kind} on PATH; only linking needs them"
        yield Condition(f"tools.{kind}", OK if found else NOTE, versions or missing, data=dict(found))
    yield Condition("tools.python", OK, f"Python {facts.python}")


def _version(said: str) -> str:
    match = re.search(r"\d+(\.\d+)+", said)
    return match[0] if match else "of unknown version"


def _environment(facts: MachineFacts) -> Iterator[Condition]:
    for name, value in sorted(facts.variables.items()):
        unset = f"unset {shlex.quote(name)}"
        if name not in settings.VARIABLES:
            yield Condition("environment.unknown", OBSTACLE, f"{name} is not a variable of hugealign", unset)
        elif problem := _bad_value(name, value):
            yield Condition("environment.value", OBSTACLE, problem, unset)
        elif name == "HUGEALIGN_DISABLE" and value == "1":
            yield Condition("environment.disabled", OBSTACLE, f"{name}=1: links are made as without hugealign", unset)
        elif value:
            yield Condition("environment.set", NOTE, f"{name}={value}")


def _bad_value(name: str, value: str) -> str:
    try:
        settings.check_variable(name, value)
    except UsageError as error:
        return str(error)
    return ""
