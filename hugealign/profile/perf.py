"""perf.data, read by ``perf script``: its format is perf's own business.

If the profile has samples of the build to order (equal build-ids), functions are identified by addresses; otherwise by
the names that perf finds in the program that ran.  If that program is gone, as on a build machine, and no build-id
says otherwise, a file of the same name is taken for it, by addresses.
"""

import os
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

from hugealign.code.callsites import CallSites
from hugealign.elf import textplaces
from hugealign.elf.fixrecord import build_id_before, loaded_before, reader
from hugealign.elf.image import read_image
from hugealign.elf.notes import build_id_place, read_notes
from hugealign.errors import HugealignError
from hugealign.io.descriptors import file_at
from hugealign.io.units import printable
from hugealign.profile import perf_addresses, perf_text, tools
from hugealign.profile.lines import lines
from hugealign.profile.model import ANOTHER_RAN, BY_NAME, Profile, ProfileError
from hugealign.profile.source import ProfileSource

_EVENTS = ("--show-mmap-events", "--show-task-events")
_TEXT = f"perf script -F pid,ip {' '.join(_EVENTS)}"
#: For a pipe's output, perf prints symbols by default; for code with debug information, also inlined frames.
_ONLY = ("-F", "-sym", "--no-inline")
_FUNCTION = 1 << 20  # bytes: more than any function, less than the distance from an offset to its address


def read(source: ProfileSource, profile: Profile) -> None:
    """Add the samples of a perf.data.  Raises ProfileError."""
    path = source.path
    perf = tools.find("perf", package="linux-perf")
    if os.stat(path).st_uid not in (0, os.geteuid()):  # perf's own rule, but perf advises an option of its own
        raise ProfileError(
            "belongs to another user, whose files perf does not read; make a copy of it (cp) and give that"
        )
    script = [perf, "script", "-i", path]
    events = _events(perf, path)
    try:
        _by_address(perf, events, source, profile)
    except _AnotherBuild:
        _refuse_copies(script, source.ours, _listed(perf, path))
        profile.notes.append(BY_NAME)
        _by_name(script, events, perf_text.TextReader(profile, source.ours))
    if not profile.good:
        raise ProfileError("has no samples")


def builds(path: str) -> dict[str, str]:
    """Return the build-ids of the files that have samples, by path.  Raises ProfileError."""
    listed = _listed(tools.find("perf", package="linux-perf"), path)
    return {os.fsdecode(name): build_id for name, build_id in listed.items()}


class _AnotherBuild(Exception):  # noqa: N818 - no error: addresses say nothing, so perf need not print them
    pass


@dataclass(frozen=True, slots=True)
class _Events:
    """What was recorded: *branches*, call *chains*, and whether the processor kept these (*calls*)."""

    branches: bool
    chains: bool
    calls: bool


def _events(perf: str, path: str) -> _Events:
    try:
        text = tools.text([perf, "evlist", "-v", "-i", path])
    except tools.ToolError as error:
        if "incompatible file format" in error.printed:
            raise ProfileError(f"{error}; if a newer perf recorded it, give what that one prints: {_TEXT}") from None
        raise
    # `--call-graph lbr`: these branches are the calls that have not returned yet; perf makes call chains of them.
    calls = b"CALL_STACK" in text
    branches = b"BRANCH_STACK" in text and not calls
    return _Events(branches, b"CALLCHAIN" in text and not branches, calls)


def _by_address(perf: str, events: _Events, source: ProfileSource, profile: Profile) -> None:
    """Read the samples as addresses, and the mappings of files.  Raises _AnotherBuild if addresses say nothing.

    perf starts to print them before the other questions are answered: printing takes the longest, and nearly always the
    build is the one that ran.
    """
    script = [perf, "script", "-i", source.path]
    # Only a call chain's offsets need the name of their file.  The less perf prints, the more samples are equal.
    fields = "pid,event,ip,brstack" if events.branches else "pid,ip,dso" if events.chains else "pid,ip"
    hidden = ["-G"] if events.branches else []
    with tools.output([*script, *hidden, "-F", fields, *_ONLY, *_EVENTS], ahead=True) as stream:
        listed = _listed(perf, source.path)
        same = {file for file, build_id in listed.items() if source.functions.is_build(build_id)}
        same = same or _copied(script, source, listed)
        if not same and (gone := _gone(script, source.ours, listed)):
            profile.notes.append(
                f"has no build-id of {printable(os.fsdecode(gone))}, which is not on this machine: addresses are taken "
                f"for those of {printable(source.binary)}"
            )
            same = {gone}
        if not same:
            raise _AnotherBuild
        # Where 64 bits are randomised, no offset is an address of a process, and the reader tells by itself.
        image = source.functions.image
        unclear = events.chains and (image.fixed or not image.is64)
        offsets = unclear and _chains_are_offsets(script, listed, _FUNCTION if events.calls else 0)
        sites = CallSites(source.binary, image)
        known = textplaces.layouts(source.binary, source.functions, map(os.fsdecode, sorted(same)))
        reader = perf_addresses.AddressReader(profile, source.functions, same.__contains__, offsets, sites, known)
        reader.read(stream)


def _by_name(script: list[str], events: _Events, reader: perf_text.TextReader) -> None:
    """Read the samples with the names that perf knows."""
    fields = "pid,event,ip,sym,symoff,dso" + (",brstacksym" if events.branches else "")
    hidden = ["-G"] if events.branches else []
    with tools.output([*script, *hidden, "--no-demangle", "--no-inline", "-F", fields], ahead=True) as stream:
        reader.read_counted(stream)


def _gone(command: list[str], ours: Callable[[bytes], bool], listed: dict[bytes, str]) -> bytes:
    """Return the path of the first mapped file that is *ours* by name, if it is not here and its build is unknown."""
    first = next((mapping for mapping in _executed(command) if ours(mapping.path)), None)
    return b"" if first is None or listed.get(first.path) or os.path.exists(first.path) else first.path


def _copied(command: list[str], source: ProfileSource, listed: dict[bytes, str]) -> set[bytes]:
    """Return the files whose build the program, a separated copy, was made of, if what ran had the copy's layout.

    perf reads the build-id of a process that has ended at the path of its file, where there is the original.
    """
    try:
        with file_at(source.binary) as fd:
            image = read_image(fd)
            at, now = build_id_place(fd, image)
            before = build_id_before(reader(fd), image, at, len(now)).hex()
    except (OSError, ValueError, HugealignError):
        return set()
    originals = {file for file, build_id in listed.items() if before and build_id == before}
    first = next((mapping for mapping in _executed(command) if mapping.path in originals), None) if originals else None
    pages = textplaces.pages(image)
    if first and textplaces.mapped([image.load_segments], first.size, first.offset, pages):
        return originals
    return set()


def _refuse_copies(command: list[str], ours: Callable[[bytes], bool], listed: dict[bytes, str]) -> None:
    """Raise ProfileError if perf would take its names from a file that is not the one that ran."""
    first = next((mapping for mapping in _executed(command) if ours(mapping.path)), None)
    if first is None or first.path not in listed:
        return
    place = first.size, first.offset
    try:
        with file_at(os.fsdecode(first.path)) as fd:
            image = read_image(fd)
            build_id, known = read_notes(fd, image).build_id, [image.load_segments, loaded_before(reader(fd), image)]
    except (OSError, ValueError, HugealignError):
        return
    texts = [(s.p_offset, s.p_offset + s.p_memsz) for layout in known for s in textplaces.texts(layout)]
    pages = textplaces.pages(image)
    there = textplaces.mapped(known, *place, pages) is not None or textplaces.is_part(texts, *place, pages)
    if build_id == listed[first.path] and not there:
        raise ProfileError(f"has no names of what ran: {ANOTHER_RAN}")


def _executed(command: list[str]) -> Iterator[perf_addresses.Executed]:
    """Yield the mappings of code; perf is stopped where the caller stops."""
    with tools.output([*command, "-F", "pid", "--show-mmap-events"]) as stream:
        yield from filter(None, map(perf_addresses.executed, lines(stream)))


def _listed(perf: str, path: str) -> dict[bytes, str]:
    """Return the files that have samples, by path, with their build-ids."""
    pairs = (line.partition(b" ") for line in tools.text([perf, "buildid-list", "-i", path]).splitlines())
    return {path.strip(): build_id.decode("ascii", "replace") for build_id, _, path in pairs}


def _chains_are_offsets(command: list[str], listed: Container[bytes], near: int) -> bool:
    """Whether this perf prints the addresses of call chains as offsets in the file.

    The first sample whose chain begins in a file tells: printed without its chain it has an address of the process, and
    the chain's first address is at most *near* bytes from that if it is one too.  (In chains that the processor kept,
    the innermost frame is the start of the function.)  Any file will do, not only ours: perf treats all alike, and the
    first samples of ours may come late.
    """
    fields = [*command, "-F", "pid,ip,dso", *_ONLY]
    for number, innermost in _samples(fields, chains=True):
        words, space, path = innermost.rpartition(b" (")
        if space and path.startswith(b"/") and not path.endswith(b".ko)") and path.removesuffix(b")") in listed:
            alone = next((line for at, line in _samples([*fields, "-G"], chains=False) if at == number), b"")
            return abs(_address(words) - _address(alone.rpartition(b" (")[0])) > near
    return False


def _address(text: bytes) -> int:
    """Return the address that is the last word of *text* in perf's output, 0 if it is not an address."""
    try:
        return int(text.split()[-1], 16)
    except (IndexError, ValueError):
        return 0


def _samples(command: list[str], chains: bool) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each sample and its line; with *chains*, the line of its innermost frame, if it has one."""
    number, head = 0, False
    with tools.output(command) as stream:
        for line in lines(stream):
            frame = line.startswith(b"\t")
            number += bool(line) and not frame
            if line and (frame and head if chains else not frame):
                yield number, line
            head = not frame
