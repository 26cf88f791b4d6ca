"""Judge the facts about a machine: facts in, diagnoses out, also of what is fine."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from hugealign import settings
from hugealign.diagnosis.values import COMMAND, ROOT, Diagnosis, Remedy
from hugealign.errors import UsageError
from hugealign.pagecache import diagnose
from hugealign.system.budget import Reported
from hugealign.system.textcosts import TextCosts

#: The statuses of a check: fine; prevents huge text; missing but not needed; unknown.
OK, OBSTACLE, NOTE, UNKNOWN = "ok", "obstacle", "note", "unknown"
#: Programs that some commands need: any C compiler, and perf.
COMPILER, PERF = "cc", "perf"
_FEW = 4  # huge pages: a control group with less memory holds hardly any


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    status: str
    """One of `ok`, `obstacle` (prevents huge text), `note` (missing, but not needed), `unknown` (not checked)."""
    diagnosis: Diagnosis

    JSON = "status diagnosis"


@dataclass(frozen=True, slots=True)
class Place:
    """The result of the experiment in one directory.

    *huge* of *windows* windows of a new file became huge; None if it could not be tried, with the name of the *error*.
    *tried_in* is another directory of the same file system, if *path* cannot be written to.
    """

    path: str
    mount_point: str = ""
    file_system: str = ""
    tried_in: str = ""
    windows: int = 0
    huge: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """All facts that `check` judges.  Text is untrusted.  None means unknown.

    *modes* has the settings for huge pages by name, each with the chosen word; *disabled*: this process and what it
    executes have no huge pages; *no_mounts* says why it may not mount copies, None if it may.  *limit* is that
    of our control group, *free* the free memory in blocks that can hold a huge page, both in bytes.  *loader* is the
    name and version of a dynamic linker that does not place libraries by their alignment.  *variables* are those
    that begin with ``HUGEALIGN_``.  *costs* are those of text, None if they were not measured.  *missing* are programs
    that some commands need, by name; *filtered*: seccomp filters our system calls.  *unread_hooks* are our hooks for
    containers outside of *hook_places*, where podman looks; *unhooked* are containers that request a hook of ours in
    vain.
    """

    release: str
    machine: str
    page_size: int
    modes: dict[str, str] | None = None
    disabled: bool = False
    no_mounts: Diagnosis | None = None
    limit: int | None = None
    free: int | None = None
    loader: str = ""
    processor: Reported | None = None
    costs: TextCosts | None = None
    places: tuple[Place, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    unread_hooks: tuple[str, ...] = ()
    hook_places: tuple[str, ...] = ()
    unhooked: tuple[Diagnosis, ...] = ()
    missing: tuple[str, ...] = ()
    filtered: bool = False


def check(facts: MachineFacts) -> list[Check]:
    """Return what was looked at, in the order of its distance: the machine, this process, places, memory."""
    return [*_machine(facts), *_process(facts), *(_place(facts, p) for p in facts.places), *_memory(facts),
            *_settings(facts), *_hooks(facts)]  # fmt: skip


def exit_status(checks: list[Check]) -> int:
    """Return 1 if there is an obstacle, 3 if an experiment could not be done, else 0."""
    statuses = {check.status for check in checks}
    return 1 if OBSTACLE in statuses else 3 if UNKNOWN in statuses else 0


def _machine(facts: MachineFacts) -> Iterator[Check]:
    kernel: dict[str, int | str] = {"release": facts.release, "machine": facts.machine, "page_size": facts.page_size}
    yield Check(OK, Diagnosis("machine.kernel", "", kernel))
    if facts.modes:
        yield Check(OK, Diagnosis("machine.thp", "", facts.modes))
    elif facts.modes is not None:
        yield Check(OBSTACLE, Diagnosis("machine.no-thp", "", {}))
    if facts.loader:
        yield Check(NOTE, Diagnosis("machine.loader", "", {"loader": facts.loader}))
    if facts.processor:
        itlb: dict[str, int | str] = {"processor": facts.processor.brand, "entries": facts.processor.huge}
        yield Check(OK, Diagnosis("machine.processor", "", itlb))
    if facts.costs:
        yield _costs(facts.costs)
    if COMPILER in facts.missing:
        yield Check(NOTE, Diagnosis("machine.no-compiler", "", {}, Remedy("install-compiler")))
    if PERF in facts.missing:
        yield Check(NOTE, Diagnosis("machine.no-perf", "", {}, Remedy("install-perf")))


def _costs(costs: TextCosts) -> Check:
    fault = f"{costs.fault.low / 1000:.1f} to {costs.fault.high / 1000:.1f}"
    words: dict[str, int | str] = {"fault": fault, "around": costs.around, "first": f"{costs.first.value:.1f}"}
    if costs.walk:
        words |= {"walk": f"{costs.walk.low:.0f} to {costs.walk.high:.0f}", "reach": costs.reach}
    if not costs.certain:
        words["uncertain"] = "rounds disagree: the machine is busy"
    return Check(OK if costs.certain else NOTE, Diagnosis("machine.text-costs", "", words))


def _process(facts: MachineFacts) -> Iterator[Check]:
    if facts.disabled:
        yield Check(OBSTACLE, diagnose.disabled(""))
    else:  # text that was warmed is huge unless all is off
        yield Check(OK, Diagnosis("process.thp-allowed", "", {}))
    if facts.no_mounts:
        yield Check(NOTE, facts.no_mounts)
        if facts.filtered:
            yield Check(NOTE, Diagnosis("process.filtered", "", {}))
    else:
        yield Check(OK, Diagnosis("process.may-mount", "", {}))


def _place(facts: MachineFacts, place: Place) -> Check:
    if place.huge is None:
        return Check(UNKNOWN, Diagnosis("file-system.not-tried", place.path, {"error": place.error}))
    seen: dict[str, int | str] = {"file_system": place.file_system, "tried_in": place.tried_in}
    if place.huge == place.windows:
        return Check(OK, Diagnosis("file-system.huge-pages", place.path, seen))
    if facts.free == 0:
        return Check(OBSTACLE, diagnose.fragmented(place.path))
    if place.huge:
        counts = {"huge": place.huge, "windows": place.windows}
        return Check(OBSTACLE, Diagnosis("thp.partial", place.path, counts, Remedy("retry")))
    if place.file_system == "tmpfs":
        denied = (facts.modes or {}).get("shmem_enabled") == "deny"
        small = diagnose.small_tmpfs(place.path, place.mount_point)
        return Check(OBSTACLE, diagnose.denied(place.path) if denied else small)
    way = ("--how=copy",) if facts.no_mounts else ()
    run = Remedy("run", ("hugealign", "run", *way, "--"), COMMAND)
    return Check(OBSTACLE, Diagnosis("file-system.no-huge-pages", place.path, seen, run))


def _memory(facts: MachineFacts) -> Iterator[Check]:
    if facts.limit is not None and facts.limit < _FEW * facts.page_size:
        yield Check(OBSTACLE, Diagnosis("memory.limit", "", {"limit": facts.limit}, Remedy("raise-limit")))
    if facts.free is not None:
        yield Check(OK, Diagnosis("memory.free", "", {"free": facts.free, "limit": facts.limit or 0}))


def _settings(facts: MachineFacts) -> Iterator[Check]:
    for name, value in sorted(facts.variables.items()):
        given = {"name": name, "value": value}
        if name not in settings.VARIABLES:
            yield Check(OBSTACLE, Diagnosis("setting.unknown", "", given, Remedy("unset")))
        elif _is_bad(name, value):
            yield Check(OBSTACLE, Diagnosis("setting.bad-value", "", given, Remedy("unset")))
        elif name == "HUGEALIGN_DISABLE" and value == "1":
            yield Check(OBSTACLE, Diagnosis("setting.disabled", "", given, Remedy("unset")))


def _hooks(facts: MachineFacts) -> Iterator[Check]:
    install = Remedy("run", ("hugealign", "oci-hook", "--install"), ROOT)
    for path in facts.unread_hooks:
        places = {"places": ":".join(facts.hook_places)}
        yield Check(OBSTACLE, Diagnosis("container.hook-unread", path, places, install))
    yield from (Check(OBSTACLE, diagnosis) for diagnosis in facts.unhooked)


def _is_bad(name: str, value: str) -> bool:
    try:
        settings.check_variable(name, value)
    except UsageError:
        return True
    return False
