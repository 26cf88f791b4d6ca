"""How many windows a processor can keep: its first-level 2 MiB instruction TLB entries, less a reserve."""

from collections.abc import Callable
from dataclasses import dataclass

from hugealign.errors import UsageError
from hugealign.units import printable

#: When nothing tells: what Intel's processors from Sandy Bridge to Ice Lake have for a thread.
DEFAULT_ENTRIES = 8
#: Entries left to others: the kernel's text, a C library or a JIT on huge pages.
DEFAULT_RESERVE = 1
_ENTRIES_LIMIT = 1 << 16
_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Budget:
    """*windows* that may be huge: *entries* less *reserve*, at least 1; *why* is where the entries come from.

    Without entries no window is: the order is for small pages.

    *cpu* is the processor's name in the table of known ones, empty if it is not in there.
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
        """Return it as a part of a JSON document."""
        return {"windows": self.windows, "itlb_2m": self.entries, "reserve": self.reserve, "why": self.why}


def budget_of(cpu: str | None = None, entries: int | None = None, reserve: int = DEFAULT_RESERVE) -> Budget:
    """Return the budget for the processor named *cpu*, for *entries*, or for the one that we run on.

    Raises UsageError for an unknown processor and for numbers that make no sense.
    """
    if entries is not None and not 0 <= entries <= _ENTRIES_LIMIT:
        raise UsageError(f"--itlb-2m: not a number from 0 to {_ENTRIES_LIMIT}")
    if entries is not None:
        return of_entries(entries, reserve, "as given by --itlb-2m")
    if cpu is not None:
        from hugealign.processor import table as cpus

        found = cpus.find(cpu)
        if not found.itlb_2m:
            raise UsageError(f"--cpu: no source gives the 2 MiB instruction TLB entries of {found.name}; use --itlb-2m")
        return of_entries(found.itlb_2m, reserve, found.name, found.name)
    return of_this_machine(reserve)()


def of_this_machine(reserve: int = DEFAULT_RESERVE) -> Callable[[], Budget]:
    """Begin to ask the processor that we run on, and return what waits for its budget."""
    from hugealign.machine import children

    asked = children.function(_ask)  # CPUID can be forbidden, which kills

    def answer() -> Budget:
        children.collect([asked], _SECONDS)
        entries, _, known = asked.text.partition(" ")
        cpu, _, brand = known.partition(" ")
        if asked.status == 0 and entries.isdigit() and int(entries):
            why = f"this machine, {cpu or printable(brand)}"
            return of_entries(min(int(entries), _ENTRIES_LIMIT), reserve, why, cpu)
        why = "the default; this machine's processor does not say (--cpu, --itlb-2m)"
        return of_entries(DEFAULT_ENTRIES, reserve, why)

    return answer


def of_entries(entries: int, reserve: int, why: str, cpu: str = "") -> Budget:
    """Return the budget of *entries*.  Raises UsageError if *reserve* makes no sense."""
    if not 0 <= reserve <= _ENTRIES_LIMIT:
        raise UsageError(f"--reserve: not a number from 0 to {_ENTRIES_LIMIT}")
    return Budget(entries, reserve, why, cpu)


def _ask() -> bytes:
    """Return the entries, the name in the table of processors, and what the processor calls itself, as text."""
    from hugealign.processor import local as processor

    asked = processor.look()
    said = asked.tlbs.l1_2m if asked.tlbs else None
    entries = (said.entries if said else 0) or (asked.cpu.itlb_2m if asked.cpu else 0) or 0
    name = asked.cpu.name if asked.cpu else ""
    return f"{entries} {name} {asked.brand.strip() or 'unknown processor'}".encode()
