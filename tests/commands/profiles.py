"""The program of tests/profiles and its profiles, for the tests of readers and orders."""

import subprocess
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from hugealign.elf.symbols import Functions, read_functions
from hugealign.profile import counts, read
from hugealign.profile.match import Matched, match
from hugealign.profile.model import Profile
from tests.support import ROOT

SAMPLES = ROOT / "tests" / "profiles"


def build(directory: Path) -> Path:
    """Compile the program as make.sh does, and return it."""
    flags = "-O1 -fno-omit-frame-pointer -fno-reorder-functions -ffunction-sections -c".split()
    subprocess.run(["gcc", *flags, SAMPLES / "main.c", SAMPLES / "other.c"], cwd=directory, check=True)
    subprocess.run(["objcopy", "--redefine-sym", r"odd=odd name\(x)", "main.o"], cwd=directory, check=True)
    for name, words in (("prog", []), ("fixed", ["-no-pie"])):
        subprocess.run(["gcc", *words, "-Wl,--build-id", "main.o", "other.o", "-o", name], cwd=directory, check=True)
    return directory / "prog"


def addressed(
    binary: Path, samples: Mapping[int, int], runs: Mapping[tuple[int, int], int] | None = None,
    jumps: Mapping[tuple[int, int], int] | None = None, calls: Mapping[tuple[int, int], int] | None = None,
) -> bytes:  # fmt: skip
    """Return a profile of that very build by address: samples, runs of code, jumps within functions, calls."""
    functions = read_functions(binary)
    rows: Counter[bytes] = Counter()
    for address, count in samples.items():
        rows[counts.function(functions.starts[functions.at(address)], "", "")] += count
    for kind, pairs in ((b"r", runs or {}), (b"j", jumps or {})):
        for (first, last), count in pairs.items():
            rows[b"%b\t%x\t%x" % (kind, first, last)] += count
    for (source, target), count in (calls or {}).items():
        caller = functions.starts[functions.at(source)]
        ends = counts.end(caller, "", ""), counts.end(target, "", "")
        rows[counts.call(ends[0], source - caller, ends[1])] += count
    return counts.write({counts.head(functions.build_id, binary.name): rows})


@cache
def functions_of(path: Path) -> Functions:
    return read_functions(path)


def load(path: Path, binary: Path, form: str | None = None) -> tuple[Profile, Matched, str]:
    """Read one profile and match it."""
    profile = Profile()
    functions = functions_of(binary)
    values = read.add(str(path), profile, functions, str(binary), form)
    return profile, match(profile, functions), values


def named(samples: dict[int, int], functions: Functions) -> dict[str, int]:
    """Return samples by name; a local whose name another has, too, with its file."""
    return {label(index, functions): count for index, count in samples.items()}


def label(index: int, functions: Functions) -> str:
    name = functions.names[index]
    return f"{name}@{functions.files[index]}" if len(functions.by_name[name]) > 1 else name


def arcs(matched: Matched, functions: Functions) -> dict[tuple[str, str], int]:
    """Return the calls by names."""
    result: dict[tuple[str, str], int] = {}
    for (caller, callee, _), count in matched.arcs.items():
        key = label(caller, functions), label(callee, functions)
        result[key] = result.get(key, 0) + count
    return result


def field(number: int, value: int | bytes) -> bytes:
    """One field of a protocol buffer."""

    def varint(value: int) -> bytes:
        low = bytes([value & 0x7F | (0x80 if value > 0x7F else 0)])
        return low + (varint(value >> 7) if value > 0x7F else b"")

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def pprof(
    functions: Functions, mapped: tuple[int, int, int] = (0x1000, 0x2000, 0x1000), path: Path = Path("/srv/prog")
) -> bytes:
    """Return a profile.proto: 12 samples in hot, by address in the very build, called by main, by name.

    *mapped* is where its text begins and ends in memory, and where it begins in the file at *path*.
    """
    start, end, offset = mapped
    hot = functions.starts[functions.by_name["hot"][0]]
    strings = [b"", b"cpu", b"count", bytes(path), functions.build_id.encode(), b"main"]
    base = 0x555500000000
    return (
        field(1, field(1, 1) + field(2, 2))
        + field(2, field(1, b"\1\2") + field(2, b"\x0c"))
        + field(3, field(1, 1) + field(2, base + start) + field(3, base + end) + field(4, offset)
                 + field(5, 3) + field(6, 4))
        + field(4, field(1, 1) + field(2, 1) + field(3, base + hot + 3))
        + field(4, field(1, 2) + field(3, 0x55) + field(4, field(1, 1) + field(2, 9)))
        + field(5, field(1, 1) + field(2, 5) + field(3, 5))
        + b"".join(field(6, text) for text in strings)
    )  # fmt: skip


def otlp(functions: Functions) -> bytes:
    """Return OpenTelemetry's form of 12 samples in hot, called by main, both by address in the very build."""
    hot, main = (functions.starts[functions.by_name[name][0]] for name in ("hot", "main"))
    base = 0x555500000000
    strings = [b"", b"samples", b"count", b"/srv/prog", b"process.executable.build_id.gnu", b"main"]
    tables = (
        field(1, b"")
        + field(1, field(1, base + 0x1000) + field(2, base + 0x2000) + field(3, 0x1000) + field(4, 3) + field(5, b"\1"))
        + field(2, b"")
        + field(2, field(1, 1) + field(2, base + hot + 3))
        + field(2, field(1, 1) + field(2, base + main + 9) + field(3, field(1, 1)))
        + field(3, b"")
        + field(3, field(1, 5))
        + b"".join(field(5, text) for text in strings)
        + field(6, b"")
        + field(6, field(1, 4) + field(2, field(1, functions.build_id.encode())))
        + field(7, b"")
        + field(7, field(1, b"\1\2"))
    )
    samples = field(2, field(1, 1) + field(4, b"\x09")) + field(2, field(1, 1) + field(5, bytes(24)))
    profile = field(1, field(1, 1) + field(2, 2)) + samples
    resource = field(1, field(1, field(1, b"service.name")))
    return field(1, resource + field(2, field(2, profile))) + field(2, tables)
