"""A processor's TLBs for the simulation: sets and ways, per level and page size.  Pure."""

from dataclasses import dataclass

from hugealign.errors import NumberFormatError, UsageError
from hugealign.io.numbers import decimal
from hugealign.io.units import printable
from hugealign.system.processors import Cpu, Tlb, find

_NUMBER_LIMIT = 10**8 - 1
_ENTRIES_LIMIT = 1 << 14  # of one table; the largest known has 4096


@dataclass(frozen=True, slots=True)
class Table:
    """*sets* of *ways* entries; the set of a page is its number modulo *sets*.  Without sets nothing is ever found."""

    sets: int
    ways: int


@dataclass(frozen=True, slots=True)
class Level:
    """The tables for 4 KiB pages and for huge pages; *huge* is None if they are the same."""

    small: Table
    huge: Table | None

    def table(self, huge: bool) -> Table:
        """Return the table that holds *huge* pages, or small ones."""
        return self.huge if huge and self.huge is not None else self.small


@dataclass(frozen=True, slots=True)
class Geometry:
    """Both levels for code, under the *name* of the processor; *second* is None where nothing is published about it."""

    name: str
    first: Level
    second: Level | None


def geometry(cpu: Cpu) -> Geometry:
    """Return what the simulation needs of *cpu*.  Raises UsageError if that is unknown or makes no sense.

    The simulation ignores everything that shares a table with the code of a process: its data, the kernel, another
    thread of the core.  So compare misses of the first level; walks are fewer than in reality.
    """
    if cpu.l1_4k is None or cpu.l1_2m is None:
        raise UsageError(f"{cpu.name}: no source gives its instruction TLB for both 4 KiB and 2 MiB pages")
    first = _level(cpu.name, cpu.l1_4k, cpu.l1_2m)
    if not all(first.table(huge).sets for huge in (False, True)):
        raise UsageError(f"{cpu.name}: a first level without entries")
    known = cpu.l2 is not None and cpu.l2_2m is not None
    second = _level(cpu.name, cpu.l2, cpu.l2_2m) if known and cpu.l2 and cpu.l2_2m else None
    return Geometry(cpu.name, first, second)


def _level(name: str, small: Tlb, huge: Tlb) -> Level:
    """Return a level; two equal tables marked as shared are one: AMD's and Arm's hold pages of any size."""
    unified = small == huge and small.shared
    return Level(_table(name, small), None if unified else _table(name, huge))


def _table(name: str, tlb: Tlb) -> Table:
    if tlb.entries == 0:
        return Table(0, 0)
    ways = tlb.entries if tlb.ways is None else tlb.ways
    if not 0 < tlb.entries <= _ENTRIES_LIMIT or not 0 < ways <= tlb.entries or tlb.entries % ways:
        raise UsageError(f"{name}: {tlb.entries} entries of {ways} ways is not a TLB")
    return Table(tlb.entries // ways, ways)


def named(text: str) -> Geometry:
    """Return the geometry of the processor named *text*, or the one that *text* describes (`parse`).

    Raises UsageError.
    """
    return parse(text) if "=" in text else geometry(find(text))


def parse(text: str) -> Geometry:
    """Return the geometry that ``4k=128/8,2m=8,l2=1536/12,l2-2m=0`` describes: entries, and ways unless any will do.

    ``any=64`` stands for one first-level table for pages of both sizes, ``l2`` without ``l2-2m`` for one second-level
    table.  Raises UsageError.
    """
    tables: dict[str, Tlb] = {}
    for part in text.split(","):
        name, _, shape = part.partition("=")
        entries, slash, ways = shape.partition("/")
        known = name in ("4k", "2m", "any", "l2", "l2-2m") and name not in tables
        try:
            numbers = [decimal(word, _NUMBER_LIMIT) for word in ((entries, ways) if slash else (entries,))]
        except NumberFormatError:
            known = False
        if not known:
            raise UsageError(f"--cpu: {printable(text)}: not a geometry such as 4k=128/8,2m=8,l2=1536/12")
        tables[name] = Tlb(numbers[0], numbers[1] if slash else None, shared=name in ("any", "l2"))
    both = tables.get("any")
    small, huge = tables.get("4k", both), tables.get("2m", both)
    if small is None or huge is None or (both and len({"4k", "2m"} & tables.keys())):
        raise UsageError(f"--cpu: {printable(text)}: needs 4k= and 2m=, or any= for both")
    second = tables.get("l2")
    cpu = Cpu(text, (), "", (), small, huge, second, tables.get("l2-2m", second), "")
    return geometry(cpu)
