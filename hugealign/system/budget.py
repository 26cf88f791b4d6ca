"""How many windows a processor can keep: its first-level 2 MiB instruction TLB entries, less a reserve."""

from dataclasses import dataclass
from typing import NamedTuple

from hugealign.errors import UsageError
from hugealign.io.units import printable
from hugealign.system import children
from hugealign.system.children import Child

#: The default: what Intel's processors from Sandy Bridge to Ice Lake have for a thread.
DEFAULT_ENTRIES = 8
#: Entries left to others: the kernel's text, a C library or a JIT on huge pages.
DEFAULT_RESERVE = 1
_ENTRIES_LIMIT = 1 << 16
_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Budget:
    """How many *windows* may be huge: *entries* less *reserve*, at least 1; *why* is where the entries come from.

    With 0 entries no window is huge: the order is for small pages.

    *cpu* is the processor's name in the table of known processors, empty if it is not listed.
    """

    entries: int
    reserve: int
    why: str
    cpu: str = ""

    @property
    def windows(self) -> int:
        """The number of windows."""
        return max(1, self.entries - self.reserve) if self.entries else 0

    def as_json(self) -> dict[str, object]:
        """Return the budget as a part of a JSON document."""
        return {"windows": self.windows, "itlb_2m": self.entries, "reserve": self.reserve, "why": self.why}


def budget_of(cpu: str | None = None, entries: int | None = None, reserve: int = DEFAULT_RESERVE) -> Budget:
    """Return the budget for *entries*, for the processor named *cpu*, or by default for the processor of this machine.

    Raises UsageError for an unknown processor and for numbers out of range.
    """
    if entries is not None and not 0 <= entries <= _ENTRIES_LIMIT:
        raise UsageError(f"--itlb-2m: not a number from 0 to {_ENTRIES_LIMIT}")
    if entries is not None:
        return of_entries(entries, reserve, "as given by --itlb-2m")
    if cpu is not None:
        from hugealign.system import processors as cpus

        found = cpus.find(cpu)
        if not found.itlb_2m:
            raise UsageError(f"--cpu: no source gives the 2 MiB instruction TLB entries of {found.name}; use --itlb-2m")
        return of_entries(found.itlb_2m, reserve, found.name, found.name)
    return of_this_machine(ask(), reserve)


def of_this_machine(asked: Child, reserve: int = DEFAULT_RESERVE) -> Budget:
    """Return the budget for this machine's processor, from the child that `ask` began."""
    said = answer(asked)
    if said and said.huge:
        why = f"this machine, {said.cpu or printable(said.brand)}"
        return of_entries(min(said.huge, _ENTRIES_LIMIT), reserve, why, said.cpu)
    return of_entries(DEFAULT_ENTRIES, reserve, "the default; this machine's processor does not say (--cpu, --itlb-2m)")


def of_entries(entries: int, reserve: int, why: str, cpu: str = "") -> Budget:
    """Return the budget of *entries*.  Raises UsageError if *reserve* is out of range."""
    if not 0 <= reserve <= _ENTRIES_LIMIT:
        raise UsageError(f"--reserve: not a number from 0 to {_ENTRIES_LIMIT}")
    return Budget(entries, reserve, why, cpu)


class Said(NamedTuple):
    """What the processor reports: first-level entries for 4 KiB and 2 MiB pages, 0 if unknown, and its names."""

    small: int
    huge: int
    cpu: str
    brand: str


def ask() -> Child:
    """Begin to ask this machine's processor, in a child: where CPUID is forbidden, using it kills the process."""
    return children.function(_look)


def answer(asked: Child) -> Said | None:
    """Return what the processor reports, None if it reports nothing."""
    children.collect([asked], _SECONDS)
    return Said(*asked.value) if asked.value else None


def _look() -> tuple[int, int, str, str]:
    from hugealign.system import this_processor as local

    asked = local.look()
    cpu, tlbs = asked.cpu, asked.tlbs
    small = (tlbs.l1_4k if tlbs else None) or (cpu.l1_4k if cpu else None)
    huge = (tlbs.l1_2m if tlbs else None) or (cpu.l1_2m if cpu else None)
    numbers = (small.entries if small else 0, huge.entries if huge else 0)
    return *numbers, cpu.name if cpu else "", asked.brand.strip() or "unknown processor"
