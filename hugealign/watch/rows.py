"""The text of all processes, by program and part.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hugealign.process.texts import Executed
from hugealign.watch import runtimes
from hugealign.watch.parts import CodeKind, CodePart, split
from hugealign.watch.runtimes import Runtime


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a row: the *program*, its *container* if asked for, the *part*, and the path that starts the program.

    *start* is another one than *program* if that was started by a link.
    """

    program: str
    container: str
    kind: CodeKind
    part: str
    start: str


@dataclass(slots=True)
class Group:
    """The same part in all processes of a program: *members* pairs each process with its part.

    *cpu* is the share of one processor that these processes have used in total.
    """

    key: Key
    runtime: Runtime | None
    cpu: float = 0.0
    members: list[tuple[Executed, CodePart]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ProgramRow:
    """One part of one program, in all of its processes together.  All names are untrusted text.

    *kind* is ``program``, ``library`` or ``code`` (without a file); *part* is the path of the file, or the name of the
    code.  *text* and *huge* are bytes.  *windows_huge* windows are huge, *windows_possible* can be with the files as
    they are, and *windows_reachable* could be after *action*, the one thing to do next (empty if there is none).
    *reason* says why not all is huge.  *cpu* is the share of one processor that the processes use.
    """

    program: str
    container: str
    kind: str
    part: str
    pids: tuple[int, ...]
    cpu: float
    text: int
    huge: int
    windows_huge: int
    windows_possible: int
    windows_reachable: int
    reason: str
    action: str

    @property
    def gain(self) -> tuple[float, int]:
        """The sort key: processor time, times the share of windows that could become huge; then how many these are."""
        more = self.windows_reachable - self.windows_huge
        if more <= 0 or not self.action:
            return 0.0, 0
        return self.cpu * more / self.windows_reachable, more


def group(
    executed: Sequence[Executed], shares: Mapping[int, float], containers: Mapping[int, str] | None = None
) -> list[Group]:
    """Return the parts of *executed* by program; *shares* (of a processor) and *containers* (names) are by PID."""
    found: dict[Key, Group] = {}
    for one in executed:
        inside = containers.get(one.pid, "") if containers else ""
        runtime = runtimes.runtime(one.exe, one.files)
        for part in split(one.exe, one.mappings):
            name = part.path or runtimes.code_name(runtime)
            key = Key(one.exe, inside, part.kind, name, one.program)
            into = found.setdefault(key, Group(key, runtime))
            into.cpu += shares.get(one.pid, 0.0)
            into.members.append((one, part))
    return list(found.values())


def ranked(rows: Sequence[ProgramRow]) -> tuple[ProgramRow, ...]:
    """Return *rows*, those with the most to gain first, equal ones by name."""
    return tuple(sorted(rows, key=lambda row: (*(-part for part in row.gain), -row.cpu, row.program, row.part)))


def shares(now: Sequence[Executed], before: Sequence[Executed] | None, at: float, earlier: float) -> dict[int, float]:
    """Return the share of a processor that each process has used since the look *earlier*, or else since its start.

    *at* and *earlier* are seconds since boot.
    """
    known = {(one.pid, one.started): one.cpu for one in before or ()}
    found = {}
    for one in now:
        used = known.get((one.pid, one.started))
        since, cpu = (one.started, one.cpu) if used is None else (earlier, one.cpu - used)
        found[one.pid] = max(0.0, cpu) / max(at - since, 0.01)
    return found
