"""Turns stacks of locations in mappings, as pprof and OpenTelemetry have them, into places of one program.

The build-id of its mapping tells the file of an address.  In the program's own build it is one of its functions.  In
another build of a file of the same name, the profile or that build's debug file names the function.
"""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hugealign.elf import textplaces
from hugealign.elf.symbols import Functions
from hugealign.elf.textplaces import Layout
from hugealign.io.units import are, counted, printable
from hugealign.profile.model import ANOTHER_RAN, NOWHERE, Place, Profile
from hugealign.profile.source import ProfileSource

_PAGE = 4096


class Mapped(NamedTuple):
    """A piece of the file at *path*, mapped from *start* to *limit*; *build_id* is empty if unknown."""

    path: bytes
    build_id: str
    start: int
    limit: int
    offset: int


class Location(NamedTuple):
    """An *address* in the mapping of number *mapping*, and the function's *name* if the profile has it."""

    address: int
    mapping: bytes
    name: bytes


def add(
    stacks: Mapping[bytes, int],
    locations: Mapping[bytes, Location],
    mappings: Mapping[bytes, Mapped],
    source: ProfileSource,
    profile: Profile,
) -> None:
    """Add *stacks*: numbers of locations, innermost first, and how often each stack was seen."""
    ours = (entry for entry in mappings.values() if source.functions.is_build(entry.build_id))
    paths = sorted({os.fsdecode(entry.path) for entry in ours})
    known = textplaces.layouts(source.binary, source.functions, paths)
    files = {key: _File(mapped, source, known) for key, mapped in mappings.items()}
    if any(file.strange for file in files.values()):
        profile.notes.append(f"samples are left out: {ANOTHER_RAN}")
    some = any(file.named for file in files.values())  # else the program ran under another name
    places: dict[bytes, Place | None] = {}
    for key, (address, mapping, name) in locations.items():
        file = files.get(mapping)
        if file and not (some and not file.named):
            places[key] = file.place(address, name, profile)
        else:
            places[key] = profile.place(name) if name and not file else None
    several = any(file.build and not file.same for file in files.values())
    lost: dict[str, int] = {}
    for stack, count in stacks.items():
        frames = stack.split()
        profile.chain([places.get(key) for key in frames], count)
        leaf = locations.get(frames[0]) if frames else None
        file = files.get(leaf.mapping) if leaf else None
        if file is None or not file.build or file.strange:
            continue
        place = places[frames[0]]
        if place is None:
            lost[file.build] = lost.get(file.build, 0) + count
        elif several:
            of_build = profile.builds.setdefault(file.build, {})
            of_build[place] = of_build.get(place, 0) + count
    for build, count in sorted(lost.items()):
        profile.notes.append(
            f"{counted(count, 'sample')} {are(count)} of the build {printable(build)}, without names: --debuginfo says "
            "where its debug file is"
        )


class _File:
    """How a mapping relates to the program: *same*, of the same build; *build*, the program's build that it is of.

    *known* are the layouts that the program may have had (`textplaces`).  Names in it are the program's if it is
    *named*: it has the program's name, or nothing says what it is of.  It is *strange* if the file has no text there.
    """

    __slots__ = ("_functions", "_limit", "_ours", "_shift", "_start", "apart", "build", "named", "same", "strange")

    def __init__(self, mapped: Mapped, source: ProfileSource, known: Sequence[Layout]) -> None:
        self.same = source.functions.is_build(mapped.build_id)
        self.apart = mapped.build_id in source.others.apart
        self._ours = not self.apart and (self.same or source.ours(mapped.path))
        self.build = mapped.build_id if self._ours else ""
        self.named = self._ours or not (mapped.path or mapped.build_id)
        # Without a build-id, the name of the file must do.
        mine = self.same or not mapped.build_id
        functions = source.functions if mine else source.others.debug.functions(mapped.build_id) if self._ours else None
        shift = _shift(mapped, functions, known if mine else ()) if functions else 0
        self.strange = shift is None
        self._functions = functions if self._ours and shift is not None else None
        self._start, self._limit = mapped.start, mapped.limit
        self._shift = shift or 0

    def place(self, address: int, name: bytes, profile: Profile) -> Place | None:
        """Return the place of an address; *name* is its name in the profile, and may be empty."""
        if self.apart:
            return None
        if name and not self.same:
            return profile.place(name)
        functions = self._functions
        if functions is None:
            return None
        inside = not self._limit or self._start <= address < self._limit
        index = functions.at(address + self._shift if inside else address)  # else it is already an address of the file
        if self.same or not self.build:
            return index
        if index < 0 or not functions.names[index]:
            return NOWHERE
        known = functions.names[index], functions.files[index]
        return profile.place(*(text.encode("utf-8", "surrogateescape") for text in known))


def _shift(mapped: Mapped, functions: Functions, known: Sequence[Layout]) -> int | None:
    """Return the difference from an address of the process to one of the file; None if the file has no text there."""
    _, _, start, limit, offset = mapped
    pages = textplaces.pages(functions.image)
    layout = textplaces.mapped(known, limit - start, offset, pages)
    begins = {s.p_offset // page * page for s in functions.image.load_segments for page in pages}
    for s in functions.image.text_segments if layout is None else textplaces.texts(layout):
        if s.p_filesz and s.p_offset - _PAGE < offset < s.p_offset + s.p_filesz:
            # Some profilers join mappings, but of a file's own text none begins within a segment and ends behind it.
            place = s.p_offset, s.p_offset + s.p_memsz
            joined = offset in begins or limit - start > functions.image.file_size
            if layout is None and not joined and not textplaces.is_part([place], limit - start, offset, pages):
                return None
            return s.p_vaddr - s.p_offset + offset - start
        # A debug file does not say where in the program's file a segment is, but the size identifies a whole segment.
        first, last = s.p_vaddr & -_PAGE, (s.p_vaddr + s.p_memsz + _PAGE - 1) & -_PAGE
        if not s.p_filesz and limit - start == last - first:
            return first - start
    return -start if start and not functions.image.fixed else 0
