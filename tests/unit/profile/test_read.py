"""What a reader keeps of a profile is paid for: memory grows with what the room has given, not beside it.

What is cached has bounds of its own, and is left out: the meaning of perf's samples and frames.
"""

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hugealign.elf.image import ET_EXEC, Image, Segment
from hugealign.elf.symbols import Functions
from hugealign.profile import counts, read
from hugealign.profile.model import Flow, Profile, ProfileError

MANY = 10_000
_BESIDE = 2 << 20  # bytes: of what is read at a time, and of buffers
_BUILD = "ab" * 20
_SIZE = 1 << 24


def functions() -> Functions:
    """Two functions of a program that is not moved, large enough for many addresses."""
    text = Segment(1, 5, 0x1000, 0x1000, 2 * _SIZE, 2 * _SIZE, 0x1000)
    image = Image(ET_EXEC, 62, (text,), (), 0)
    names = {"main": [0], "hot": [1]}
    return Functions([0x1000, 0x1000 + _SIZE], [_SIZE] * 2, ["main", "hot"], ["", ""], names, _BUILD, image=image)


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def inside(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def each(make: Callable[[int], bytes], count: int = MANY) -> bytes:
    return b"".join(make(n) for n in range(count))


LONG = b"n" * 4000
STRINGS = (b"", b"samples", b"count", b"process.executable.build_id.gnu", LONG, b"program")


def otlp(tables: bytes = b"", profiles: bytes = b"", sample: bytes = b"") -> bytes:
    """OpenTelemetry's profiles, with *tables* in the dictionary, *profiles* and a *sample* beside the usual."""
    strings = b"".join(inside(5, item) for item in STRINGS)
    profile = inside(2, inside(1, number(1, 1) + number(2, 2)) + sample)
    return inside(2, strings + tables) + inside(1, inside(2, profile + profiles))


def pprof(*more: bytes) -> bytes:
    """A pprof whose strings are the same."""
    return inside(1, number(1, 1) + number(2, 2)) + b"".join(more) + b"".join(inside(6, item) for item in STRINGS)


def counted(*keys: Callable[[int], bytes], module: bytes = b"program") -> bytes:
    lines = {key(n): 1 for key in keys for n in range(MANY)}
    return counts.write({_BUILD.encode() + b"\t" + module: lines})


def events(make: Callable[[int], str]) -> bytes:
    return "".join(make(n) for n in range(MANY)).encode()


def mapping(pid: int, at: int) -> str:
    return f"a {pid} PERF_RECORD_MMAP2 {pid}/{pid}: [{at:#x}(0x1000) @ 0x1000 0:0 1 2]: r-xp /bin/program\n"


YAML = b"---\nheader:\n  profile-version: 1\nfunctions:\n"
CASES = {
    "otlp-attributes-of-mappings": lambda: otlp(inside(1, inside(5, varint(300) * 20_000)) * 12),
    "otlp-build-ids": lambda: otlp(
        inside(1, b"") + each(lambda n: inside(1, number(4, 5) + inside(5, varint(n % 300)))) + inside(6, b"")
        + inside(6, number(1, 3) + inside(2, inside(1, LONG))) * 300
    ),
    "otlp-paths-of-mappings": lambda: otlp(inside(1, b"") + inside(1, number(4, 4)) * MANY),
    "otlp-names-of-locations": lambda: otlp(
        inside(2, b"") + inside(2, inside(3, number(1, 1))) * MANY + inside(3, b"") + inside(3, number(1, 4))
    ),
    "otlp-lines-of-locations": lambda: otlp(inside(2, inside(3, number(1, 0)) * 3) * MANY),
    "otlp-stacks": lambda: otlp(inside(7, inside(1, varint(300) * 20_000)) * 12),
    "otlp-functions": lambda: otlp(inside(3, number(1, 300) + number(2, 300)) * MANY),
    "otlp-strings": lambda: otlp(inside(5, b"") * MANY),
    "otlp-attributes": lambda: otlp(inside(6, number(1, 300)) * MANY),
    "otlp-profiles": lambda: otlp(profiles=inside(2, b"") * MANY),
    "otlp-types": lambda: otlp(
        each(lambda n: inside(5, b"kind %d" % n)),
        each(lambda n: inside(2, inside(1, number(1, n + len(STRINGS))))),
    ),
    "otlp-samples": lambda: otlp(
        inside(7, inside(1, varint(300) * 3)) * MANY, sample=each(lambda n: inside(2, number(1, n)))
    ),
    "pprof-strings": lambda: pprof(inside(6, b"") * MANY),
    "pprof-types": lambda: pprof(inside(1, number(1, 4) + b"".join(number(n, 300) for n in range(3, 16))) * MANY),
    "pprof-mappings": lambda: pprof(each(lambda n: inside(3, number(1, n) + number(5, 4) + number(6, 4)))),
    "pprof-locations": lambda: pprof(each(lambda n: inside(4, number(1, n) + number(3, n))), inside(3, number(1, 1))),
    "pprof-names-of-locations": lambda: pprof(
        each(lambda n: inside(4, number(1, n) + inside(4, number(1, 1)))), inside(5, number(1, 1) + number(3, 4))
    ),
    "pprof-functions": lambda: pprof(each(lambda n: inside(5, number(1, n) + number(3, 300)))),
    "pprof-samples": lambda: pprof(each(lambda n: inside(2, number(1, n) + number(1, 300) + number(2, 1)))),
    "folded-names": lambda: events(lambda n: f"name{n:x} 1\n"),
    "folded-wide-names": lambda: each(lambda n: "\U0001f600n{:x}{} 1\n".format(n, "n" * 400).encode(), 10_000),
    "folded-calls": lambda: events(lambda n: f"a{n % 200:x};b{n // 200:x} 1\n"),
    "fdata-names": lambda: events(lambda n: f"1 main 0 1 n{n:x} 0 0 1\n"),
    "fdata-calls": lambda: events(lambda n: f"1 main {n:x} 1 hot 0 0 1\n"),
    "fdata-samples": lambda: b"no_lbr cycles\n" + events(lambda n: f"1 main {n:x} 1\n"),
    "counts-functions": lambda: counted(lambda n: b"f\t\tname%x\t\t" % n),
    "counts-of-addresses": lambda: counted(lambda n: b"f\t%x\t\t\t" % (0x1000 + n)),
    "counts-calls": lambda: counted(lambda n: b"c\tmain\t\t%x\thot\t" % n),
    "counts-runs": lambda: counted(lambda n: b"r\t%x\t%x" % (n, n + 1)),
    "counts-returns": lambda: counted(lambda n: b"b\t%x" % n),
    "counts-of-others": lambda: counted(lambda n: b"f\t\tname%x\t\t" % n, module=b"other"),
    "counts-builds": lambda: counts.write({b"%040x\tprogram" % n: {b"f\t\tmain\t\t": 1} for n in range(MANY // 4)}),
    "order-blocks": lambda: b"# hugealign.order/1\n" + (b"main\tblocks=" + b".".join([b"300"] * 9000) + b"\n") * 40,
    "order-names": lambda: b"# hugealign.order/1\n" + events(lambda n: f"name{n:x}\tsamples=1\n"),
    "symbols": lambda: events(lambda n: f"name{n:x}\n"),
    "callgrind-names": lambda: b"events: Ir\n" + events(lambda n: f"fl=({n}) file{n:x}\n"),
    "callgrind-functions": lambda: b"events: Ir\n" + events(lambda n: f"fn=({n}) name{n:x}\n1 1\n"),
    "perf-text-names": lambda: events(lambda n: f"a 1 1.0: 1 c:u: {n:x}00 name{n:x}+0x1 (/bin/program)\n"),
    "perf-processes": lambda: events(lambda n: mapping(1 + n, 0x10000)) + b" 1 c: 1000\n",
    "perf-mappings": lambda: events(lambda n: mapping(1 + n // 5, (n % 5 + 1) << 16)) + b" 1 c: 1000\n",
    "perf-branches": lambda: events(lambda n: f" 1 c:u: 0x{n + 0x1000:x}/0x{n + 0x2000:x}/P/-/-/0\n"),
    "yaml-names": lambda: YAML + events(lambda n: f"  - name: n{n:x}\n    fid: {n}\n    hash: 0\n")[: 1 << 20],
    "profdata-text": lambda: b"Counters:\n" + events(lambda n: f"  name{n:x}:\n    Function count: 1\n"),
    "gcov": lambda: each(
        lambda n: b'{"files":[{"file":"a.c","functions":[{"name":"n%x","execution_count":1}]}]}\n' % n
    ),
}  # fmt: skip


def kept(data: bytes, tmp_path: Path) -> Iterator[int]:
    """Yield the most bytes that reading *data* takes, and those of them that the room gave."""
    path = tmp_path / "profile"
    profile = Profile(flow=Flow())
    before = profile.room.left
    known = functions()
    with suppress(ProfileError):  # what is imported on the way is not kept
        path.write_bytes(data[: data.find(b"\n", 4000) + 1])
        read.add(str(path), Profile(), known, "/bin/program")
    path.write_bytes(data)
    gc.collect()
    tracemalloc.start()
    with suppress(ProfileError):
        read.add(str(path), profile, known, "/bin/program")
    yield tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    yield before - profile.room.left


@pytest.mark.parametrize("name", CASES)
def test_what_is_kept_is_paid_for(name: str, tmp_path: Path) -> None:
    data = CASES[name]()
    assert len(data) > MANY
    peak, paid = kept(data, tmp_path)
    assert peak < _BESIDE + 2 * len(data) + paid, (peak >> 20, len(data) >> 20, paid >> 20)
