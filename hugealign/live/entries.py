"""What the processor's instruction TLBs hold: as it says itself, as is published of it, or as most do."""

import json
from dataclasses import dataclass

from hugealign.errors import UsageError
from hugealign.machine import children
from hugealign.processor import table
from hugealign.units import printable

_SECONDS = 5.0
_DEFAULT = "skylake"  # the most usual in servers; its first level for huge pages is among the smallest


@dataclass(frozen=True, slots=True)
class Entries:
    """First-level entries for pages of 4 KiB (*small*) and 2 MiB (*huge*); of which *cpu*, and *why* that one."""

    small: int
    huge: int
    cpu: str
    why: str


def entries(cpu: str | None = None) -> Entries:
    """Return those of the processor named *cpu*, or of the one that we run on.  Raises UsageError."""
    if cpu is not None:
        return _published(table.find(cpu), "as asked for")
    asked = children.function(_ask)  # CPUID can be forbidden, which kills
    children.collect([asked], _SECONDS)
    if asked.status == 0 and asked.output:
        small, huge, name, brand = json.loads(asked.output)
        if small and huge:
            return Entries(small, huge, name, f"this machine, {name or printable(brand)}")
    return _published(table.find(_DEFAULT), "the default; this machine's processor does not say (--cpu)")


def _published(found: table.Cpu, why: str) -> Entries:
    if found.l1_4k is None or found.l1_2m is None:
        raise UsageError(f"--cpu: no source gives both instruction TLBs of {found.name}")
    return Entries(found.l1_4k.entries, found.l1_2m.entries, found.name, f"{found.name}, {why}")


def _ask() -> bytes:
    from hugealign.processor import local

    asked = local.look()
    cpu, tlbs = asked.cpu, asked.tlbs
    small = (tlbs.l1_4k if tlbs else None) or (cpu.l1_4k if cpu else None)
    huge = (tlbs.l1_2m if tlbs else None) or (cpu.l1_2m if cpu else None)
    found = small.entries if small else 0, huge.entries if huge else 0, cpu.name if cpu else "", asked.brand
    return json.dumps(found).encode()
