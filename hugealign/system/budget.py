"""How many windows a processor can keep: its first-level 2 MiB instruction TLB entries, less one for others."""

from dataclasses import dataclass, replace

from hugealign.errors import UsageError
from hugealign.io.units import printable
from hugealign.system import children, textcosts
from hugealign.system.children import Child
from hugealign.system.processors import Cpu, find
from hugealign.system.textcosts import TextCosts

#: The default: what Intel's processors from Sandy Bridge to Ice Lake have for a thread.
DEFAULT_ENTRIES = 8
#: Entries left to others: the kernel's text, a C library or a JIT on huge pages.
RESERVE = 1
#: More windows than any processor has entries.
MOST_WINDOWS = 1 << 16
_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Budget:
    """How many *windows* may be huge, and *why*; with 0 windows the order is for small pages.

    *entries* are the processor's, 0 if they were not needed.  *cpu* is its name in the table of known processors, empty
    if it is not listed.  *here* means that this is about this machine's processor.  *reach* is how many small pages
    need no page walk, 0 if that is unknown.  *costs* are those of this machine, None if they are not measured yet.
    """

    windows: int
    why: str
    entries: int = 0
    cpu: str = ""
    here: bool = False
    reach: int = 0
    costs: TextCosts | None = None


def budget_of(cpu: str | None = None, windows: int | None = None) -> Budget:
    """Return how many windows a processor can keep.

    Args:
        cpu: The name of a processor; by default this machine's.
        windows: The answer, where the caller knows better.

    Raises:
        UsageError: The processor is unknown, or the number out of range.
    """
    if windows is not None and not 0 <= windows <= MOST_WINDOWS:
        raise UsageError(f"--windows: not a number from 0 to {MOST_WINDOWS}")
    if windows is not None:
        return Budget(windows, "as given by --windows")
    if cpu is not None:
        processor = find(cpu)
        if not processor.itlb_2m:
            raise UsageError(
                f"--cpu: no source gives the instruction TLB entries of {processor.name} for 2 MiB pages; use --windows"
            )
        return replace(of_entries(processor.itlb_2m, processor.name, processor.name), reach=reach_of(processor))
    return of_this_machine(query())


def reach_of(processor: Cpu) -> int:
    """Return how many small pages the *processor* holds, by the table; 0 if that is not published."""
    tlbs = (processor.l1_4k, processor.l2)
    return max((tlb.entries for tlb in tlbs if tlb), default=0) if None not in tlbs else 0


def of_this_machine(running: Child) -> Budget:
    """Return the budget for this machine's processor, from the child that `query` began.

    Where no table has the processor, what was measured replaces it.
    """
    known, costs = reported(running), textcosts.cached()
    entries = min(known.huge, MOST_WINDOWS) if known else 0
    if entries and known:
        made = of_entries(entries, f"this machine, {known.cpu or printable(known.brand)}", known.cpu)
    elif costs and costs.windows:
        made = of_entries(costs.windows_held, "this machine, as measured")
    else:
        why = "the default, because this machine's processor is unknown (--cpu, --windows)"
        return replace(of_entries(DEFAULT_ENTRIES, why), reach=costs.reach if costs else 0, costs=costs)
    return replace(made, here=True, reach=_reach(costs, known.reach if known else 0), costs=costs)


def _reach(costs: TextCosts | None, published: int) -> int:
    """Return how many small pages cost no walk: a processor holds no less than it has entries, whatever disturbed."""
    if costs is None:
        return published
    return max(costs.reach, published) if costs.reach else 0


def elsewhere() -> Budget:
    """Return the budget of a program for another processor than this machine's."""
    why = "the default, because the program is for another processor (--windows, or --cpu if that lists it)"
    return Budget(DEFAULT_ENTRIES - RESERVE, why)


def of_entries(entries: int, why: str, cpu: str = "") -> Budget:
    """Return the budget of a processor with *entries* entries: all but one, and at least one."""
    return Budget(max(1, entries - RESERVE), why, entries, cpu)


@dataclass(frozen=True, slots=True)
class Reported:
    """What the processor reports: first-level entries for 4 KiB and 2 MiB pages, 0 if unknown, and its names.

    *reach* is how many small pages all levels hold, 0 if unknown.
    """

    small: int
    huge: int
    cpu: str
    brand: str
    reach: int = 0


def query() -> Child:
    """Begin to read this machine's processor, in a child: where CPUID is forbidden, using it kills the process."""
    return children.function(_read)


def reported(running: Child) -> Reported | None:
    """Return what the processor reports, None if it reports nothing."""
    children.collect([running], _SECONDS)
    return Reported(*running.value) if running.value else None


def _read() -> tuple[int, int, str, str, int]:
    from hugealign.system import this_processor as local

    report = local.read()
    cpu, tlbs = report.cpu, report.tlbs
    small = (tlbs.l1_4k if tlbs else None) or (cpu.l1_4k if cpu else None)
    huge = (tlbs.l1_2m if tlbs else None) or (cpu.l1_2m if cpu else None)
    numbers = (small.entries if small else 0, huge.entries if huge else 0)
    return *numbers, cpu.name if cpu else "", report.brand.strip() or "unknown processor", reach_of(cpu) if cpu else 0
