"""The hardware events for instruction-TLB misses, by processor: published encodings, each with its source.

Pure.  Sources: the tables of Linux's perf (tools/perf/pmu-events/arch), which Intel, AMD and Arm contribute to.
"""

from dataclasses import dataclass

_PERF = "Linux, tools/perf/pmu-events/arch"


@dataclass(frozen=True, slots=True)
class Event:
    """A hardware event: its published *name*, and its number for perf_event_open(2) (PERF_TYPE_RAW)."""

    name: str
    config: int


@dataclass(frozen=True, slots=True)
class Events:
    """The events of the processors named *cpus* in `processors.CPUS`.

    *cycles* counts the cycles with a page walk for code under way: the most that huge pages can save; None if no event
    counts these.  *misses* are the events that add up to the first-level misses, which decide if *cycles* is None.
    """

    cpus: tuple[str, ...]
    cycles: Event | None
    misses: tuple[Event, ...]
    source: str


def _raw(event: int, umask: int = 0, cmask: int = 0) -> int:
    """Return the encoding of x86 (arch/x86/include/asm/perf_event.h, X86_RAW_EVENT_MASK)."""
    return event & 0xFF | umask << 8 | cmask << 24


EVENTS: tuple[Events, ...] = (
    Events(
        ("broadwell",),
        Event("ITLB_MISSES.WALK_DURATION", _raw(0x85, 0x10)),
        (
            Event("ITLB_MISSES.STLB_HIT", _raw(0x85, 0x60)),
            Event("ITLB_MISSES.MISS_CAUSES_A_WALK", _raw(0x85, 0x01)),
        ),
        f"{_PERF}/x86/broadwellx/virtual-memory.json",
    ),
    Events(
        ("skylake",),
        Event("ITLB_MISSES.WALK_ACTIVE", _raw(0x85, 0x10, 1)),
        (
            Event("ITLB_MISSES.STLB_HIT", _raw(0x85, 0x20)),
            Event("ITLB_MISSES.MISS_CAUSES_A_WALK", _raw(0x85, 0x01)),
        ),
        f"{_PERF}/x86/skylakex/virtual-memory.json",
    ),
    Events(
        ("icelake",),
        Event("ITLB_MISSES.WALK_ACTIVE", _raw(0x85, 0x10, 1)),
        (Event("ITLB_MISSES.STLB_HIT", _raw(0x85, 0x20)), Event("ITLB_MISSES.WALK_COMPLETED", _raw(0x85, 0x0E))),
        f"{_PERF}/x86/icelakex/virtual-memory.json",
    ),
    Events(
        ("sapphirerapids",),
        Event("ITLB_MISSES.WALK_ACTIVE", _raw(0x11, 0x10, 1)),
        (Event("ITLB_MISSES.STLB_HIT", _raw(0x11, 0x20)), Event("ITLB_MISSES.WALK_COMPLETED", _raw(0x11, 0x0E))),
        f"{_PERF}/x86/sapphirerapids/virtual-memory.json",
    ),
    Events(
        ("zen5",),
        None,
        (
            Event("bp_l1_tlb_miss_l2_tlb_hit", _raw(0x84)),
            Event("bp_l1_tlb_miss_l2_tlb_miss.all", _raw(0x85, 0x0F)),
        ),
        f"{_PERF}/x86/amdzen5/branch-prediction.json",
    ),
)


def of(cpu: str) -> Events | None:
    """Return the events of the processor that `processors.CPUS` calls *cpu*; None if none were looked up."""
    return next((events for events in EVENTS if cpu in events.cpus), None)
