"""The sizes of the processor's instruction TLBs: reported by the processor, published, or those of a common one."""

from dataclasses import dataclass

from hugealign.errors import UsageError
from hugealign.io.units import printable
from hugealign.system import processors as table
from hugealign.system.budget import answer, ask

_DEFAULT = "skylake"  # the most common in servers; its first level for huge pages is among the smallest


@dataclass(frozen=True, slots=True)
class Entries:
    """First-level TLB entries of *cpu* for pages of 4 KiB (*small*) and 2 MiB (*huge*), and *why* that processor."""

    small: int
    huge: int
    cpu: str
    why: str


def entries(cpu: str | None = None) -> Entries:
    """Return the entries of the processor named *cpu*, or else of this machine's.  Raises UsageError."""
    if cpu is not None:
        return _published(table.find(cpu), "as asked for")
    said = answer(ask())
    if said and said.small and said.huge:
        return Entries(said.small, said.huge, said.cpu, f"this machine, {said.cpu or printable(said.brand)}")
    return _published(table.find(_DEFAULT), "the default; this machine's processor does not say (--cpu)")


def _published(found: table.Cpu, why: str) -> Entries:
    if found.l1_4k is None or found.l1_2m is None:
        raise UsageError(f"--cpu: no source gives both instruction TLBs of {found.name}")
    return Entries(found.l1_4k.entries, found.l1_2m.entries, found.name, f"{found.name}, {why}")
