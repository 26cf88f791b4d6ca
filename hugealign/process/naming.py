"""What a person means who names processes: a PID, a service, or a program."""

import contextlib
import os
from collections import Counter
from collections.abc import Sequence

from hugealign.diagnosis.values import Diagnosis
from hugealign.io.numbers import decimal
from hugealign.io.units import nearest
from hugealign.process import groups
from hugealign.process.processes import GoneError, ProcessError, comm, pids
from hugealign.process.procfs import GONE, PROC
from hugealign.system import unitnames

_COMM_LENGTH = 15  # TASK_COMM_LEN - 1 in include/linux/sched.h: the kernel cuts names there
_PID_LIMIT = (1 << 64) - 1  # the kernel stops at 2**22; larger numbers are looked up, in vain


def find(target: str) -> list[int]:
    """Return the PIDs that *target* means: a PID itself, or all processes of a service or of a name except our own.

    A service may go without ``.service``, as for systemctl and for `hugealign enable`.  What runs as a service is that
    service, whichever programs have its name: ``mariadb`` is the server, not the client.  Else a name is the ``comm``
    of a process or the base name of its program.  Raises GoneError for a name that no process has, HugealignError for a
    number that is not a PID, for a unit that is not a service, and without /proc.
    """
    every = pids()
    if is_number(target):
        return [decimal(target, _PID_LIMIT, "PID")]
    members = of_service(target, every)
    if members:
        return members
    is_full = target.endswith(".service") and not unitnames.is_template(target)
    matching = [] if is_full else named(target, every)
    if matching:
        return matching
    instance = _instance(target, every)
    if refusal := unitnames.refusal(target):
        raise ProcessError.of(refusal.changed(facts={**refusal.facts, **({"example": instance} if instance else {})}))
    if is_full or unitnames.exists(target):
        raise GoneError.of(Diagnosis("service.no-process", target, {"near": instance}))
    raise GoneError.of(Diagnosis("process.unknown-name", target, {"near": nearest(target, _names(every))}))


def named(name: str, every: Sequence[int]) -> list[int]:
    """Return those of the PIDs *every* whose process has the *name*, except our own."""
    return [pid for pid in every if pid != os.getpid() and _has_name(pid, name)]


def of_service(unit: str, every: Sequence[int]) -> list[int]:
    """Return the PIDs, of *every*, of the processes of the running service *unit*."""
    names = {unit if unit.endswith(".service") else f"{unit}.service", unitnames.service(unit)}
    return [pid for pid in every if _service(pid) in names]


def outside(target: str) -> list[int]:
    """Return the PIDs of the processes with the name *target* that `find` leaves out, since a service has that name."""
    every = [] if is_number(target) or target.endswith(".service") else pids()
    members = set(of_service(target, every))
    return [pid for pid in named(target, every) if pid not in members] if members else []


def near_service(word: str) -> str:
    """Return the service that *word* may mean, a PID or the name of a program; empty if none is known."""
    every = [int(word)] if is_number(word) and len(word) < 20 else named(word, pids())
    services = Counter(filter(None, map(_service, every)))
    return next((name for name, _ in services.most_common(1)), "")


def _instance(unit: str, every: Sequence[int]) -> str:
    """Return a running instance of the template *unit*, or of that which *unit* only groups, without ``.service``."""
    start = f"{unitnames.stem(unit).removesuffix('@')}@"
    return next((unitnames.stem(name) for name in map(_service, every) if name.startswith(start)), "")


def is_number(word: str) -> bool:
    """Return whether *word* is a PID rather than a name."""
    return word.isascii() and word.isdecimal()


def _service(pid: int) -> str:
    return groups.service(groups.of_process(pid))


def _names(every: Sequence[int]) -> set[str]:
    """Return the names of all running programs and services except our own."""
    names = set()
    for pid in every:
        with contextlib.suppress(OSError):
            if pid != os.getpid():
                names.add(os.path.basename(os.readlink(f"{PROC}/{pid}/exe").removesuffix(GONE)))
                names.add(unitnames.stem(_service(pid)))
    return names - {""}


def _has_name(pid: int, name: str) -> bool:
    try:
        known = comm(pid)
    except OSError:
        return False
    try:
        program = os.readlink(f"{PROC}/{pid}/exe").removesuffix(GONE)
    except OSError:  # a kernel thread, or not ours: only the cut name is known
        return known == name[:_COMM_LENGTH]
    return name in (known, os.path.basename(program))
