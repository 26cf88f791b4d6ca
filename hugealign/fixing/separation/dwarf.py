"""Find the addresses in debug information: DWARF 2 to 5, split or not, .debug_frame and GDB's index.

See the DWARF standard, version 5, chapter 7 (data representation), version 4 for ``.debug_loc`` and ``.debug_ranges``,
and https://gcc.gnu.org/wiki/DebugFission for what GNU's split form adds to version 4.  Lists are reached from the
entries that refer to them, since GCC puts other things between them.  What is not understood, or would take a number
of another length for an address, raises `UnclearError`.
"""

import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import pairwise

from hugealign.elf.leb128 import read_one
from hugealign.fixing.separation.dwarf_forms import (
    ADDRESS,
    ADDRESS_SIZE,
    AT_ADDR_BASE,
    AT_GNU_ADDR_BASE,
    AT_GNU_RANGES_BASE,
    AT_LOW_PC,
    BASES,
    EXPRESSION,
    FORM_ADDR,
    FORM_IMPLICIT_CONST,
    HIGHEST,
    LIST,
    LIST_BY_INDEX,
    LISTED,
    LOCATION_ENTRIES,
    LOCATION_RUN,
    LONG,
    NUMBER,
    OFFSET_PAIR,
    PAIR,
    RANGE_ENTRIES,
    RANGE_RUN,
    RANGES,
    SIZES,
    STRING,
    UNIT_SKELETON,
    UNIT_SPLIT,
    UNIT_SPLIT_TYPE,
    UNIT_TYPE,
    Abbreviation,
    Dialect,
    Table,
    Unit,
    UnknownFormError,
    behind,
    number,
)
from hugealign.fixing.separation.dwarf_tables import Contents, Tables, UnclearError
from hugealign.fixing.separation.places import ascending

#: The sections that hold addresses or what is needed to find them, and those that hold none.
SECTIONS = frozenset(
    [".debug_" + name for name in ("info", "types", "abbrev", "line", "aranges", "addr", "frame", "ranges", "loc")]
    + [".debug_rnglists", ".debug_loclists", ".gdb_index"]
)
WITHOUT = frozenset(
    [".debug_" + name for name in ("str", "line_str", "str_offsets", "macro", "macinfo", "names", "sup")]
    + [".debug_" + name for name in ("pubnames", "pubtypes", "gnu_pubnames", "gnu_pubtypes", "gdb_scripts")]
)
_TABLES = 64  # of abbreviations that are kept, in case a later unit has the same


def find_addresses(sections: Mapping[str, Contents]) -> dict[str, "array[int]"]:
    """Return the offsets of all addresses in the debug *sections*, in any order, some twice.  Raises UnclearError."""
    search = _Search(sections)
    try:
        search.run()
    except (UnknownFormError, IndexError, ValueError, struct.error, KeyError, OverflowError, RecursionError) as error:
        raise UnclearError(search.section) from error
    return search.places


class _Search(Tables):
    def __init__(self, sections: Mapping[str, Contents]) -> None:
        super().__init__(sections)
        self._tables: dict[tuple[int, Dialect], Table] = {}
        #: The lists that entries refer to: for each section, offset << 1 | whether it counts from a base, by dialect.
        self._lists: dict[tuple[str, Dialect], array[int]] = {}
        #: Where units say that tables of addresses begin, and whether with a header.
        self._tables_of_addresses: set[tuple[int, bool]] = set()
        #: Where the ranges of units of GNU's split form begin, whose entries are elsewhere; whether they have a base.
        self._split_ranges: set[tuple[int, bool]] = set()
        # Tables and lists can begin within others, as some of GCC's do: the work is bounded by the size nevertheless.
        self._left = 1 << 16 | 4 * sum(contents.size for contents in sections.values())

    def run(self) -> None:
        for name, read in (
            (".debug_info", self._units),
            (".debug_types", self._units),
            (".debug_line", self.lines),
            (".debug_aranges", self.aranges),
            (".debug_addr", self._addresses),
            (".debug_frame", self.frames),
            (".debug_loclists", self._new_lists),
            (".debug_rnglists", self._new_lists),
            (".debug_loc", self._old_lists),
            (".debug_ranges", self._old_lists),
            (".gdb_index", self.index),
        ):
            if name in self.sections:
                self.section = name
                read()
                self.wholes.pop(name, None)

    def _pay(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise UnknownFormError

    def _units(self) -> None:
        for start, data, offset_size in self.parts():
            version, at = number(data, 0, 2), 2
            if version == 5:
                kind, address_size = data[at], data[at + 1]
                abbreviations = number(data, at + 2, offset_size)
                at += 2 + offset_size
                if kind in (UNIT_SKELETON, UNIT_SPLIT):
                    at += 8
                elif kind in (UNIT_TYPE, UNIT_SPLIT_TYPE):
                    at += 8 + offset_size
            elif 2 <= version <= 4:
                abbreviations, address_size = number(data, at, offset_size), data[at + offset_size]
                at += offset_size + 1
                if self.section == ".debug_types":
                    at += 8 + offset_size
            else:
                raise UnknownFormError
            if address_size != 8:
                raise UnknownFormError
            dialect = self.dialect(version, offset_size)
            self._entries(start, data, at, Unit(dialect), self._table(abbreviations, dialect))

    def _table(self, start: int, dialect: Dialect) -> Table:
        """Return the abbreviations of the table at *start* in .debug_abbrev."""
        table = self._tables.get((start, dialect))
        if table is None:
            if len(self._tables) == _TABLES:
                self._tables.clear()
            table = self._tables[start, dialect] = Table(dict(self._declarations(start, dialect)))
        return table

    def _declarations(self, at: int, dialect: Dialect) -> Iterator[tuple[int, Abbreviation]]:
        data = self.whole(".debug_abbrev")
        while True:
            code, at = read_one(data, at)
            if not code:
                return
            start = at
            _, at = read_one(data, at)
            at += 1  # whether it has children
            pairs: list[tuple[int, int]] = []
            while True:
                attribute, at = read_one(data, at)
                form, at = read_one(data, at)
                if form == FORM_IMPLICIT_CONST:  # the value is here
                    _, at = read_one(data, at)
                if not attribute and not form:
                    break
                pairs.append((attribute, form))
            self._pay(at - start)
            same = data[start:at]  # in most units of a program
            if same not in dialect.declared:
                dialect.declared[same] = Abbreviation(pairs, dialect)
            yield code, dialect.declared[same]

    def _entries(self, start: int, data: bytes, at: int, unit: Unit, table: Table) -> None:
        """Read the entries of a *unit*, of *data* at *start* in the section, from *at* on."""
        if at < len(data):  # the bases of its lists come before any list
            code, first = read_one(data, at)
            if code:
                self._first_entry(data, first, unit, table.pairs[code])
        places, end, read_offset = self.places[self.section], len(data), SIZES[unit.dialect.offset_size].unpack_from
        lists = {attribute: self._list_of(attribute, unit) for attribute in LISTED}
        based = unit.based
        skips, plans = table.skips, table.plans
        while at < end:
            code = data[at]
            at += 1
            if code > 0x7F:
                code, at = read_one(data, at - 1)
            at += skips[code]
            if code not in plans:
                continue
            for kind, more, skip in plans[code]:
                if kind == LIST:
                    lists[more].append(read_offset(data, at)[0] << 1 | based)
                elif kind == ADDRESS:
                    places.append(start + at)
                elif kind == NUMBER:
                    while data[at] > 0x7F:  # as `end_of` does: its call, here and in `_list`, costs 2 % of a fix
                        at += 1
                    at += 1
                elif kind == STRING:
                    at = data.index(0, at) + 1
                elif kind == LIST_BY_INDEX:
                    at = self._refer_by_index(more, data, at, unit)
                else:
                    if more:
                        size, at = number(data, at, more), at + more
                    else:
                        size = data[at]
                        at += 1
                        if size > 0x7F:
                            size, at = read_one(data, at - 1)
                    if size > ADDRESS_SIZE and kind == EXPRESSION:
                        self.expression(start, data, at, size, unit.dialect)
                    at += size
                at += skip
        if at != end:
            raise UnknownFormError

    def _first_entry(self, data: bytes, at: int, unit: Unit, pairs: list[tuple[int, int]]) -> None:
        """Read what the first entry of a unit, at *at*, says about the rest."""
        self._pay(len(pairs))
        ranges, size = -1, unit.dialect.offset_size
        for attribute, form in pairs:
            if attribute == AT_LOW_PC:
                # The base of lists without a base of their own; one that is given by an index counts as not 0.
                unit.based = form != FORM_ADDR or number(data, at, 8) != 0
            elif attribute == AT_GNU_RANGES_BASE:
                ranges = number(data, at, size)
            elif attribute == AT_GNU_ADDR_BASE:
                self._tables_of_addresses.add((number(data, at, size), False))
            elif attribute == AT_ADDR_BASE:
                self._tables_of_addresses.add((number(data, at, size) - 2 * size, True))
            elif attribute in BASES:
                unit.bases[BASES[attribute]] = number(data, at, size)
            at = behind(data, at, form, unit.dialect)
        if ranges >= 0:
            self._split_ranges.add((ranges, unit.based))

    def _list_of(self, attribute: int, unit: Unit) -> "array[int]":
        """Return what holds the lists for an *attribute*."""
        new = unit.dialect.version >= 5
        if attribute in RANGES:
            section = ".debug_rnglists" if new else ".debug_ranges"
        else:
            section = ".debug_loclists" if new else ".debug_loc"
        return self._lists.setdefault((section, unit.dialect), array("Q"))

    def _refer_by_index(self, attribute: int, data: bytes, at: int, unit: Unit) -> int:
        """Note the list whose number is at *at*; return where the number ends."""
        section = ".debug_rnglists" if attribute in RANGES else ".debug_loclists"
        index, at = read_one(data, at)
        base, size = unit.bases[section], unit.dialect.offset_size
        offset = base + number(self.whole(section), base + index * size, size)
        self._list_of(attribute, unit).append(offset << 1 | unit.based)
        return at

    def _noted_lists(self) -> Iterator[tuple[Dialect, int, bool]]:
        """Yield the lists of the section by offset, each once: how they are encoded, the offset, if it has a base."""
        for (section, dialect), noted in self._lists.items():
            if section == self.section:
                last = -1
                for note in ascending(noted):
                    if note >> 1 == last:
                        raise UnknownFormError  # one list, relative to two bases
                    last = note >> 1
                    yield dialect, last, bool(note & 1)

    def _old_lists(self) -> None:
        """Read lists before version 5: pairs of addresses, or of distances from a base."""
        data = self.whole(self.section)
        for dialect, at, based in self._noted_lists():
            self._pairs(data, at, dialect, based=based)
        if self.section == ".debug_ranges" and self._split_ranges:
            starts = {at for _, at, _ in self._noted_lists()} | {at for at, _ in self._split_ranges} | {len(data)}
            ordered = sorted(starts)
            for start, based in self._split_ranges:
                at, end = start, ordered[bisect_right(ordered, start)]
                while at < end:
                    at = self._pairs(data, at, None, based=based)

    def _pairs(self, data: bytes, at: int, dialect: Dialect | None, *, based: bool) -> int:
        """Read the list at *at*, of locations if it has a *dialect* and is in their section; return where it ends."""
        places, located, start = self.places[self.section], self.section == ".debug_loc", at
        while True:
            low, high = PAIR.unpack_from(data, at)
            if low == high == 0:
                self._pay(at - start)
                return at + 16
            if low == HIGHEST:
                based = high != 0
                places.append(at + 8)
                at += 16
                continue
            if not based:
                places.extend((at, at + 8))
            at += 16
            if located and dialect:
                size, at = number(data, at, 2), at + 2
                if size > ADDRESS_SIZE:
                    self.expression(0, data, at, size, dialect)
                at += size

    def _new_lists(self) -> None:
        data = self.whole(self.section)
        for dialect, at, based in self._noted_lists():
            self._pay(self._list(data, at, dialect, based=based) - at)

    def _list(self, data: bytes, at: int, dialect: Dialect, *, based: bool) -> int:
        """Read the list at *at*; return where it ends.  Ranges and locations have the same entries by other numbers."""
        places, located = self.places[self.section], self.section == ".debug_loclists"
        entries, run = (LOCATION_ENTRIES, LOCATION_RUN) if located else (RANGE_ENTRIES, RANGE_RUN)
        while True:
            if based and (passed := run.match(data, at)):
                at = passed.end()
            kind = data[at]
            at += 1
            if not kind:
                return at
            addresses, numbers, described = entries[kind]
            if kind == OFFSET_PAIR and not based:
                raise UnknownFormError  # addresses as LEB128, whose length would change
            for _ in range(addresses):
                places.append(at)
                at += 8
            for _ in range(numbers):
                while data[at] > 0x7F:
                    at += 1
                at += 1
            if described:
                size, at = (data[at], at + 1) if data[at] < 0x80 else read_one(data, at)
                if size > ADDRESS_SIZE:
                    self.expression(0, data, at, size, dialect)
                at += size
            elif addresses + numbers == 1:
                based = True

    def _addresses(self) -> None:
        """Read tables of addresses: with headers in version 5, one behind the other; without them in GNU's form."""
        places, data = self.places[".debug_addr"], self.whole(".debug_addr")
        bare = [at for at, headed in self._tables_of_addresses if not headed]
        if not bare:
            for start, part, _ in self.parts():
                if number(part, 0, 2) != 5 or part[2] != 8 or part[3] or len(part) % 8 != 4:
                    raise UnknownFormError
                places.extend(range(start + 4, start + len(part), 8))
            return
        for (at, headed), (end, _) in pairwise([*sorted(self._tables_of_addresses), (len(data), False)]):
            first = at + (0 if not headed else 16 if number(data, at, 4) == LONG else 8)
            if not 0 <= first <= end or (end - first) % 8:
                raise UnknownFormError
            places.extend(range(first, end, 8))
