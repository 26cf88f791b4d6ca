"""What of the machine's text becomes huge: the best first, within a bound.  Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hugealign.diagnosis.values import Diagnosis
from hugealign.machine.machine_policy import Policy
from hugealign.system.saving import Saving

#: How a part becomes huge: its files in the page cache, held there; copies, for a service; copies, for containers.
IN_PLACE, COPIES, HOOK = "in-place", "copies", "hook"
#: When: for processes that start from now on; when the service or the container starts again; once the file was out of
#: use, as at boot.
NOW, RESTART, CONTAINER_STARTS, BOOT = "now", "restart", "container", "boot"
#: The least that is worth a part: a share of one processor's time.
_MATTERS = 1e-4


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the machine: a file, or a service with its files."""

    name: str
    """The service, or the path of the file; of a container, in a layer of its image."""
    how: str
    """One of `in-place`, `copies` or `hook`."""
    files: tuple[str, ...]
    windows: int
    memory: int
    share: float
    """Of one processor, that its programs use."""
    saving: Saving
    """The share of that which huge text saves by page faults, by the model."""
    when: str = NOW
    """One of `now`, `restart`, `container` or `boot`: from the next start on, a restart of the service, the next start
    of the container, a boot."""
    most: float = 1.0
    """The most that it can save with page walks; 1 if that is not known."""

    JSON = "name how files windows memory share saving most when"

    @property
    def saved(self) -> float:
        """The share of one processor that is saved."""
        return self.share * self.saving.value


@dataclass(frozen=True, slots=True)
class MachinePlan:
    """The parts to *take*, the best first, and why others are *left*: the subject of each is a file or a service."""

    take: tuple[Part, ...]
    left: tuple[Diagnosis, ...]

    @property
    def memory(self) -> int:
        """The bytes that they take."""
        return sum(part.memory for part in self.take)


def gains(share: float, saving: Saving, policy: Policy) -> bool:
    """Return whether a program that uses *share* of one processor saves enough of that."""
    return policy.everything or (100 * saving.value >= policy.least and share * saving.value >= _MATTERS)


def choose(parts: Iterable[Part], policy: Policy, taken: Sequence[Part] = ()) -> MachinePlan:
    """Return which of *parts* to take beside those that are *taken* already.

    What saves most for its memory comes first; what would not fit is left, and smaller ones after it are taken.
    """
    room = policy.bound() - sum(part.memory for part in taken)
    take: list[Part] = []
    left: list[Diagnosis] = []
    for part in sorted(parts, key=lambda part: (-part.saved / max(part.memory, 1), part.name)):
        if policy.excludes(part.name):
            left.append(Diagnosis("policy.excluded", part.name, {}))
        elif not gains(part.share, part.saving, policy) and not policy.includes(part.name):
            left.append(little(part, policy))
        elif part.memory > room:
            left.append(Diagnosis("policy.no-room", part.name, {"size": part.memory, "room": room}))
        else:
            take.append(part)
            room -= part.memory
    return MachinePlan(tuple(take), tuple(left))


def little(part: Part, policy: Policy) -> Diagnosis:
    """Return that *part* saves too little, as far as that is known."""
    facts = {"percent": f"{100 * part.saving.value:.1f}", "least": f"{policy.least:g}"}
    if part.most < 1:
        facts["most"] = f"{100 * part.most:.1f}"
    return Diagnosis("policy.little-saved", part.name, facts)


def kept(parts: Sequence[Part], policy: Policy) -> list[Part]:
    """Return the *parts* in force that the *policy* still wants and has room for, the best first."""
    wanted = [part for part in parts if not policy.excludes(part.name)]
    room = policy.bound()
    result = []
    for part in sorted(wanted, key=lambda part: (-part.saved / max(part.memory, 1), part.name)):
        if part.memory <= room:
            result.append(part)
            room -= part.memory
    return result
