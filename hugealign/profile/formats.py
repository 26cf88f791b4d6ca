"""The formats of profiles: how each begins, since file names do not tell, and its reader."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hugealign.elf.image import ELFMAG
from hugealign.profile import (
    bolt_yaml,
    callgrind,
    counted,
    fdata,
    folded,
    gcov,
    lists,
    otlp,
    perf,
    perf_addresses,
    perf_text,
    pprof,
    profdata,
)
from hugealign.profile.model import Profile
from hugealign.profile.source import ProfileSource
from hugealign.profile.stacks import Mapped

_PACKED = (("gzip", b"\x1f\x8b"), ("zstd", b"\x28\xb5\x2f\xfd"))
_NAME = rb"(?:[^ \n\\]|\\.)+"
_TIME = re.compile(rb"\A\x48[\x80-\xff]{1,9}[\0-\x7f]", re.DOTALL)
_PERIOD = re.compile(rb"\A\x60[\x80-\xff]{0,9}[\0-\x7f]", re.DOTALL)
_LINE_SHOWN = 300  # bytes at either end of a line that patterns see: they take time in the square of its length

_Read = Callable[[ProfileSource, Profile], None]


@dataclass(frozen=True, slots=True)
class Format:
    """All that is known of a format."""

    name: str
    begins: Callable[[bytes], object]
    """Whether a profile that begins so has this format."""
    read: _Read
    """Adds a source to a profile."""
    shown: str = ""
    """The name in a sentence, if it is another."""
    sampled: bool = False
    """Whether it holds samples, so that what rarely ran may be missing."""
    tool: bool = False
    """Whether a tool reads it, which needs a file."""
    binary: bool = False
    """Whether *begins* gets the bytes, not complete lines."""
    builds: Callable[[str], dict[str, str]] | None = None
    """Returns the build IDs of the files with samples in the profile at a path, by their paths."""
    programs: Callable[[bytes], list[str]] | None = None
    """Returns the paths of the programs that the beginning of a profile names."""
    mapped: Callable[[bytes], Iterable[Mapped]] | None = None
    """Yields the mapped files of a profile in memory, with their build IDs."""

    @property
    def title(self) -> str:
        """The name, for a message that says as what a file was read."""
        return self.shown or self.name


def _binary(name: str, magic: bytes, read: _Read, **known: Any) -> Format:
    """Return a format that begins with *magic*, a pattern, and that a tool reads."""
    return Format(name, re.compile(magic, re.DOTALL).match, read, tool=True, binary=True, **known)


def _text(name: str, first_lines: bytes, read: _Read, **known: Any) -> Format:
    return Format(name, re.compile(first_lines).match, read, **known)


def _of_lines(read: Callable[[Iterator[bytes], Profile], None]) -> _Read:
    return lambda source, profile: read(source.lines(), profile)


def _of_short_lines(read: Callable[[Iterator[bytes], Profile], None]) -> _Read:
    return lambda source, profile: read(source.short_lines(), profile)


def _pprof(head: bytes) -> bool:
    """Whether this begins like pprof's profile.proto: with sample_type, a ValueType of two small numbers.

    Go's runtime writes time_nanos first, or period_type, another ValueType, and period.
    """
    head = _TIME.sub(b"", head[:_LINE_SHOWN])
    if _value_type(head, 0x5A):
        head = _PERIOD.sub(b"", head[2 + head[1] :])
    return _value_type(head, 0x0A) and head[2 + head[1] :].startswith((b"\x0a", b"\x12", b"\x22"))


def _value_type(head: bytes, field: int) -> bool:
    return len(head) > 2 and head[0] == field and 2 <= head[1] <= 12 and head[2] in (0x08, 0x10)


_PERF_ADDRESSES: dict[str, Any] = {"shown": "perf script's addresses", "sampled": True}
#: The first match wins, so strict ones come first; a format with different texts may come twice.
_FORMATS = (
    _binary("perf.data", rb"PERFILE2|2ELIFREP", perf.read, sampled=True, builds=perf.builds),
    _binary("profdata", rb"\x81[rR]forpl\xff|\xffrforpl\x81|\xfflprof[ri]\x81", profdata.read_data),
    # "SPROF42" and 255, 4 or 2, in ULEB128: raw, extensible and compact
    _binary("llvm-sample", rb"(?:\xff\xe5|\x84\xe4|\x82\xe4)\xd0\xb1\xf4\xc9\x94\xa8", profdata.read_samples),
    _binary("gcda", rb"adcg|gcda", gcov.read_data),
    Format("pprof", _pprof, pprof.read_proto, sampled=True, binary=True, mapped=pprof.mapped),
    Format("otlp", otlp.looks_like, otlp.read, sampled=True, binary=True, mapped=otlp.mapped),
    _text("order", rb"# hugealign\.order/1[ \t\r]*\n", _of_lines(lists.read_order), shown="an order file"),
    _text("counts", rb"# hugealign\.counts/", counted.read, shown="the counts of a fleet"),
    _text("bolt-yaml", rb"(?:---[ \t\r]*\n)?header:[ \t\r]*\n[ \t]+profile-version:", bolt_yaml.read),
    _text(
        "callgrind",
        rb"(?:#.*\n|version: .*\n|\n)*(?:# callgrind format|creator: callgrind|positions: |events: |fn=)",
        callgrind.read,
        programs=callgrind.programs,
    ),
    _text(
        "gcov", rb'\{"(?:gcc_version|format_version|current_working_directory|files|data_file)"', _of_lines(gcov.read)
    ),
    _text("profdata-text", rb"Counters:\s*\n  \S", _of_short_lines(profdata.read)),
    _text(
        "fdata",
        rb"no_lbr\b|boltedcollection\s*\n|[0-5] " + _NAME + rb" [0-9a-f]+ [0-5] " + _NAME + rb" [0-9a-f]+ \d+ \d+\s*\n",
        fdata.read,
    ),
    _text(
        "llvm-text",
        rb"(?:#.*\n)*(?::(?:ir|fe|csir|entry_first|single_byte_coverage|temporal_prof_traces)\b|\S.*\n# Func Hash:)",
        profdata.read_data,
        tool=True,
    ),
    _text("autofdo", rb"(?:\[.*\]|\S.*):\d+:\d+\s*\n(?: +(?:\d+|!)|\S)", profdata.read_samples, tool=True),
    _text(
        "perf-addresses",
        rb"(?:.*\n){0,2000}?.*0x[0-9a-f]+/0x[0-9a-f]+/[PM-]/[X-]/[A-]/",
        perf_addresses.read,
        **_PERF_ADDRESSES,
    ),
    _text(
        "perf-text",
        rb"(?:.*\n){0,200}?"
        rb"(?:.*:\s+[0-9a-f]{3,16} .+ \(|\t +[0-9a-f]+ \S.* \(|.*\S\+0x[0-9a-f]+/\S+\+0x[0-9a-f]+/[PM-]/)",
        perf_text.read,
        shown="perf script's text",
        sampled=True,
    ),
    _text(
        "perf-addresses",
        rb"(?:.*\n){0,200}?(?: *\d+ .*:\s+[0-9a-f]{3,16}(?: \(.*)?\s*\n|.*PERF_RECORD_|\t +[0-9a-f]+\s)",
        perf_addresses.read,
        **_PERF_ADDRESSES,
    ),
    _text("folded", rb"(?:#.*\n)*\S.* \d+\s*\n", _of_lines(folded.read), shown="folded stacks"),
    Format("symbols", lists.looks_like, _of_lines(lists.read_symbols), shown="a list of symbols"),
)

#: The formats by name.
FORMATS = {form.name: form for form in _FORMATS}


def detect(head: bytes) -> str | None:
    """Return the format of a file that begins with *head* (some thousand bytes), None if it is unknown.

    For ``gzip`` and ``zstd``, unpack the file and ask again.
    """
    for name, magic in _PACKED:
        if head.startswith(magic):
            return name
    if head.startswith(ELFMAG):
        return None
    binary_form = next((form.name for form in _FORMATS if form.binary and form.begins(head)), None)
    if binary_form or b"\0" in head or not head.strip():
        return binary_form
    # Only complete lines: the last one may be cut.
    text = head if head.endswith(b"\n") else head[: head.rfind(b"\n") + 1] or head + b"\n"
    if len(text) > 2 * _LINE_SHOWN:
        cut = (
            line[:_LINE_SHOWN] + line[-_LINE_SHOWN:] if len(line) > 2 * _LINE_SHOWN else line
            for line in text.split(b"\n")
        )
        text = b"\n".join(cut)
    return next((form.name for form in _FORMATS if not form.binary and form.begins(text)), None)
