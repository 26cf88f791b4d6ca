"""What format a profile is in, by what it begins with; never by its name."""

import re
import struct

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_RAW_MAGIC = (b"\x81rforpl\xff", b"\xffrforpl\x81", b"\x81Rforpl\xff", b"\xfflprofr\x81", b"\xfflprofi\x81")
_SAMPLE_MAGIC = (b"\x84\xe4\xd0\xb1\xf4\xc9\x94\xa8", b"\x82\xe4\xd0\xb1\xf4\xc9\x94\xa8")  # "SPROF42", 4 or 2: ULEB128
_AFDO_VERSIONS = (b"\1\0\0\0", b"\2\0\0\0")  # in coverage data, there are four letters of GCC's version
_GPERFTOOLS = struct.pack("<3Q", 0, 3, 0)  # then the period, and samples; of processors with 64 bits
_NAME = rb"(?:[^ \n\\]|\\.)+"
_LINE_SHOWN = 300  # bytes of either end of a line that are looked at: patterns take the square of its length

#: Each text format with what its first lines look like.  The first that fits is taken, so the strict ones come first.
_TEXT: tuple[tuple[str, re.Pattern[bytes]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("order", rb"# hugealign\.order/1[ \t\r]*\n"),
        ("bolt-yaml", rb"(?:---[ \t\r]*\n)?header:[ \t\r]*\n[ \t]+profile-version:"),
        ("pprof-text", rb"(?:.*\n){0,3}PeriodType: "),
        (
            "callgrind",
            rb"(?:#.*\n|version: .*\n|\n)*(?:# callgrind format|creator: callgrind|positions: |events: |fn=)",
        ),
        ("gprof-text", rb"(?:.*\n){0,9}?(?:Flat profile:|\s*Call graph)"),
        ("gcov", rb'\{"(?:gcc_version|format_version|current_working_directory|files|data_file)"'),
        ("profdata-text", rb"Counters:\s*\n  \S"),
        ("fdata", rb"no_lbr\b|boltedcollection\s*\n"),
        ("fdata", rb"[0-5] " + _NAME + rb" [0-9a-f]+ [0-5] " + _NAME + rb" [0-9a-f]+ \d+ \d+\s*\n"),
        ("llvm-text", rb"(?:#.*\n)*:(?:ir|fe|csir|entry_first|single_byte_coverage|temporal_prof_traces)\b"),
        ("llvm-text", rb"(?:#.*\n)*\S.*\n# Func Hash:"),
        ("preaggregated", rb"E \S+\n|[BTFfSRr](?: (?:[0-9a-f]+:|X:)?-?[0-9a-f]+){2,4}(?: \d+)?\n"),
        ("autofdo", rb"(?:\[.*\]|\S.*)(?::\d+:| total:\d+ head:)\d+\s*\n(?: +(?:\d+|!)|\S)"),
        ("perf-addresses", rb"(?:.*\n){0,2000}?.*0x[0-9a-f]+/0x[0-9a-f]+/[PM-]/[X-]/[A-]/"),
        ("perf-text", rb"(?:.*\n){0,200}?(?:.*:\s+[0-9a-f]{3,16} .+ \(|\t +[0-9a-f]+ \S.* \()"),
        ("perf-text", rb"(?:.*\n){0,200}?.*\S\+0x[0-9a-f]+/\S+\+0x[0-9a-f]+/[PM-]/"),
        (
            "perf-addresses",
            rb"(?:.*\n){0,200}?(?: *\d+ .*:\s+[0-9a-f]{3,16}(?: \(.*)?\s*\n|.*PERF_RECORD_|\t +[0-9a-f]+\s)",
        ),
        ("folded", rb"(?:#.*\n)*\S.* \d+\s*\n"),
        ("symbols", rb"[^\x01-\x08\x0e-\x1a]*\Z"),
    )
)


def detect(head: bytes) -> str | None:
    """Return the format of a file that begins with *head* (some thousand bytes), None if it is none that is known.

    ``gzip`` and ``zstd`` are to be unpacked and looked at again.
    """
    if head[:2] == GZIP:
        return "gzip"
    if head[:4] == ZSTD:
        return "zstd"
    if head[:8] in (b"PERFILE2", b"2ELIFREP"):
        return "perf.data"
    if head[:8] in _RAW_MAGIC:
        return "profdata"
    if head.startswith(_SAMPLE_MAGIC):
        return "llvm-sample"
    if head[:4] == b"gmon":
        return "gprof"
    if head[:4] == b"adcg" and head[4:8] in _AFDO_VERSIONS:
        return "afdo"
    if head[:4] in (b"adcg", b"gcda"):
        return "gcda"
    if head[:4] == b"\x7fELF":
        return None
    if head.startswith(_GPERFTOOLS) or _pprof(head):
        return "pprof"
    if b"\0" in head or not head.strip():
        return None
    # Only whole lines: the last one may be cut.
    text = head if head.endswith(b"\n") else head[: head.rfind(b"\n") + 1] or head + b"\n"
    if len(text) > 2 * _LINE_SHOWN:
        cut = (
            line[:_LINE_SHOWN] + line[-_LINE_SHOWN:] if len(line) > 2 * _LINE_SHOWN else line
            for line in text.split(b"\n")
        )
        text = b"\n".join(cut)
    return next((name for name, form in _TEXT if form.match(text)), None)


def _pprof(head: bytes) -> bool:
    """Whether this begins like profile.proto of pprof: sample_type, a ValueType of two small numbers, comes first."""
    if len(head) < 8 or head[0] != 0x0A or not 2 <= head[1] <= 12:
        return False
    return head[2] in (0x08, 0x10) and head[2 + head[1]] in (0x0A, 0x12)
