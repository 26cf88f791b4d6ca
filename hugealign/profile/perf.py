"""perf.data, read by ``perf script``: its format is perf's own business.

If the profile has samples of the very build that is to be ordered (equal build-ids), functions are told by addresses;
else by names.
"""

import os
from typing import BinaryIO

from hugealign.elf.symbols import Functions
from hugealign.profile import perf_addresses, perf_text, tools
from hugealign.profile.lines import lines
from hugealign.profile.model import Profile, ProfileError

_EVENTS = ("--show-mmap-events", "--show-task-events")


def read(path: str, profile: Profile, functions: Functions, binary: str) -> None:
    """Add the samples of the file at *path* to *profile*.  Raises ProfileError."""
    perf = tools.find("perf", package="linux-perf")
    events = tools.text([perf, "evlist", "-v", "-i", path])
    branches, chains = b"BRANCH_STACK" in events, b"CALLCHAIN" in events
    same = _same_build(tools.text([perf, "buildid-list", "-i", path]), functions.build_id)
    command = [perf, "script", "-i", path]
    if same:
        if branches:
            command += ["-G", "-F", "pid,event,ip,brstack"]
        else:
            # Only a call chain's offsets need the name of their file.
            command += ["-F", "pid,event,ip,dso"] if chains else ["-F", "pid,event,ip"]
        command += _EVENTS
    else:
        profile.notes.append("is of another build, or has no build-id: functions are matched by name")
        command += ["--no-demangle", "-F", "pid,event,ip,sym,symoff,dso" + (",brstacksym" if branches else "")]
        command += ["-G"] if branches else []
    offsets = _chains_are_offsets([perf, "script", "-i", path], same) if same and chains and not branches else None
    with tools.output(command) as stream:
        if same:
            perf_addresses.Reader(profile, functions, same.__contains__, offsets).read(stream)
        else:
            name = os.fsencode(os.path.basename(binary))
            perf_text.Reader(profile, lambda file: file.rpartition(b"/")[2] == name).read(lines(stream))
    if not profile.good:
        raise ProfileError("has no samples")


def _same_build(listed: bytes, build_id: str) -> set[bytes]:
    """Return the paths that the binary was sampled under."""
    pairs = (line.partition(b" ") for line in listed.splitlines())
    return {path.strip() for found, _, path in pairs if build_id and found.decode("ascii", "replace") == build_id}


def _chains_are_offsets(command: list[str], ours: set[bytes]) -> bool:
    """Whether this perf prints the addresses of call chains as offsets in the file.

    Told by the first sample in one of *ours*: with its chain, and without, which is an address of the process.
    """
    fields = [*command, "-F", "pid,event,ip,dso"]
    return _first_address(fields, ours) != _first_address([*fields, "-G"], ours)


def _first_address(command: list[str], ours: set[bytes]) -> bytes:
    """Return the address of the innermost frame of the first sample that lies in one of *ours*."""
    try:
        with tools.output(command) as stream:
            _find_first(stream, ours)
    except _FoundError as found:
        return found.address
    return b""


def _find_first(stream: BinaryIO, ours: set[bytes]) -> None:
    """Raise _FoundError with that address."""
    innermost = False
    for line in lines(stream):
        # The innermost frame stands on the sample's own line, or right below it.
        frame = line.startswith(b"\t")
        words, space, path = line.rpartition(b" (")
        if space and (innermost or not frame) and path.removesuffix(b")") in ours:
            raise _FoundError(words.split()[-1])
        innermost = not frame


class _FoundError(Exception):
    """Ends the command early."""

    def __init__(self, address: bytes) -> None:
        super().__init__()
        self.address = address
