"""Does GCC's own division of hot code from cold gain anything?  ``python -m lab.bench.gcc [NAME]...``.

gcc compiles SQLite and gawk at -O2: as they are, with AutoFDO's profile (``-fauto-profile``), and with GCC's own,
counted by instrumented code (``-fprofile-use``).  `hugealign gcc` links each alone, and with an order from a trace of
the plain build, where one profile gives both, or of the same build, which takes a second run.  Both profiles divide a
function: code that did not run is `f.cold`.  Misses are simulated for another run than the one learned from, as the
mean of 16 places of the libraries.  It prints the table of docs/measured/ordered-links.md.

AutoFDO's file is made from the trace: ``create_gcov --profiler=text`` takes ranges of addresses that ran, and branches.
It reads DWARF up to version 4.  Debian 12's version (0.19) writes the length of a name in words, as in gcov's files
until GCC 11; GCC 12 reads bytes there (gcc/gcov-io.cc, gcov_read_string) and crashes.  So `in_bytes` rewrites the
names.  With the profile, GCC 12.2's vectorizer divides by zero in SQLite (sqlite3Insert).  So these builds are not
vectorized; both options are named, since -fauto-profile switches each on again after -fno-tree-vectorize (gcc/opts.cc).
"""

import argparse
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

from hugealign.elf.symbols import read_functions
from hugealign.system.processors import CPUS
from hugealign_lab.files import find
from hugealign_lab.geometry import geometry
from hugealign_lab.placement import original
from hugealign_lab.tracefile import Trace, open_trace
from lab.bench.peers import figures, heldout, profiles
from lab.bench.peers.units import units
from lab.tests.traces import executed
from tests.support import HUGEALIGN, ROOT, environment, run

WORK = ROOT / "build" / "bench" / "gcc"
_PROCESSORS = ("ivybridge", "skylake", "sapphirerapids", "zen3", "neoverse-n1")
_BUDGETS = (0, 1, 2, 4, 8, 16)
_NAMES = 0xAA000000  # GCOV_TAG_AFDO_FILE_NAMES
Units = Callable[[Path], tuple[list[Path], tuple[str, ...]]]
_PROGRAMS: dict[str, tuple[Units, tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "sqlite": (heldout.sqlite_units, ("-lm", "-lz"), (":memory:", ".read train.sql"), (":memory:", ".read test.sql")),
    "gawk": (heldout.gawk_units, ("-lm", "-ldl"), ("-f", "train.awk"), ("-f", "test.awk")),
}


def ranges(trace: Trace, program: Path, place: Path) -> Path:
    """Write the run of *program* as create_gcov's text: ranges of addresses, no single ones, and branches."""
    file = find(trace.description.files, str(program))
    functions = read_functions(program)
    (text,) = functions.image.text_segments
    ahead = text.p_vaddr - text.p_offset  # create_gcov takes offsets in the file
    branches = profiles.aggregated(trace, file, program, functions, place.with_suffix(".branches"))
    taken = [line.split()[1:4] for line in branches.read_text().splitlines() if line.startswith("B ")]
    rows = zip(executed(trace), trace.block_rows(), strict=True)
    ran = [
        f"{address - ahead:x}-{address - ahead + size - 1:x}:{times}"
        for times, (address, number, size, _) in rows
        if times and number == file
    ]
    jumps = [f"{int(source, 16) - ahead:x}->{int(target, 16) - ahead:x}:{times}" for source, target, times in taken]
    place.write_text("\n".join([str(len(ran)), *ran, "0", str(len(jumps)), *jumps]) + "\n")
    return place


def in_bytes(data: bytes) -> bytes:
    """Return AutoFDO's file with the lengths of its names in bytes."""
    tag, _, count = struct.unpack_from("<III", data, 12)
    if tag != _NAMES:
        raise SystemExit("create_gcov wrote a file of another form")
    at, names = 24, bytearray()
    for _ in range(count):
        (words,) = struct.unpack_from("<I", data, at)
        name = data[at + 4 : at + 4 + 4 * words].rstrip(b"\0") + b"\0"
        names += struct.pack("<I", len(name)) + name
        at += 4 + 4 * words
    return data[:12] + struct.pack("<III", tag, (len(names) + 4) // 4, count) + names + data[at:]


def auto_profile(trace: Trace, program: Path, place: Path) -> Path:
    """Return the file for -fauto-profile, made from the *trace* of *program*."""
    text = ranges(trace, program, place.with_suffix(".ranges"))
    words = ["create_gcov", f"-binary={program}", f"-profile={text}", "-profiler=text", "-gcov_version=2"]
    subprocess.run([*words, f"-gcov={place}", f"-log_dir={place.parent}"], check=True, capture_output=True)
    place.write_bytes(in_bytes(place.read_bytes()))
    return place


def traced(directory: Path, program: str, arguments: tuple[str, ...], name: str) -> Trace:
    """Return the trace of a run."""
    run(HUGEALIGN, "trace", "-o", f"{name}.trace", "--", f"./{program}", *arguments, cwd=directory, check=True)
    return open_trace(str(directory / f"{name}.trace"))


def ordered(directory: Path, program: str, trace: Trace) -> Path:
    """Return the order of the whole *trace* of *program*."""
    order = directory / f"{program}.order"
    words = [trace.path, "-b", program, "-o", order.name, "--cpu", "skylake"]
    run(HUGEALIGN, "order-trace", *words, cwd=directory, check=True)
    return order


def measure(name: str) -> None:
    """Build, trace and simulate one program, and print its lines."""
    directory = WORK / name
    directory.mkdir(parents=True, exist_ok=True)
    result, libraries, train, test = _PROGRAMS[name]
    files, flags = result(directory)
    scalar = ("-fno-tree-loop-vectorize", "-fno-tree-slp-vectorize") if name == "sqlite" else ()
    plain = (*flags, "-g1", "-gdwarf-4", *scalar)

    def linked(target: str, objects: tuple[str, ...], *words: str, order: Path | None = None) -> str:
        front = [str(HUGEALIGN), *([f"--profile={order}"] if order else []), "gcc"]
        command = [*front, *words, *objects, *libraries, "-o", target]
        subprocess.run(command, cwd=directory, check=True, env=environment())
        return target

    objects = units(directory, "plain.", files, plain, "gcc")
    builds = [linked("plain", objects)]
    learned = traced(directory, "plain", train, "plain.train")
    first = ordered(directory, "plain", learned)
    builds.append(linked("plain, order", objects, order=first))
    profile = auto_profile(learned, directory / "plain", directory / "auto.gcov")
    counting = units(directory, "counting.", files, (*plain, "-fprofile-generate"), "gcc")
    linked("counting", counting, "-fprofile-generate")
    subprocess.run(["./counting", *train], cwd=directory, check=True, capture_output=True)
    for counted in directory.glob("counting*.gcda"):  # gcc looks for them by the name of the object
        counted.rename(counted.with_name(counted.name.replace("counting.", "fprofile-use.", 1)))
    for way, more in (("-fauto-profile", f"-fauto-profile={profile}"), ("-fprofile-use", "-fprofile-use")):
        objects = units(directory, f"{way[1:]}.", files, (*plain, more, "-Wno-missing-profile"), "gcc")
        builds.append(linked(way[1:], objects))
        builds.append(linked(f"{way[1:]}, order", objects, order=first))
        own = ordered(directory, way[1:], traced(directory, way[1:], train, f"{way[1:]}.train"))
        builds.append(linked(f"{way[1:]}, order of its own", objects, order=own))
    for build in builds:
        trace = traced(directory, build, test, build)
        file = find(trace.description.files, str(directory / build))
        cpus = [geometry(cpu) for cpu in CPUS if cpu.name in _PROCESSORS]
        draws = figures.drawn(trace, file, original(trace, file, build), 0)
        misses, _ = figures.missed(draws, trace, _BUDGETS, cpus)
        for processor, counts in misses.items():
            print(f"| {name} | {build} | {processor} | {' | '.join(f'{count:,}' for count in counts)} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.gcc")
    parser.add_argument("programs", nargs="*", metavar="|".join(_PROGRAMS), help="default: all")
    print(f"| program | build | processor | {' | '.join(map(str, _BUDGETS))} |")
    print(f"|---|---|---|{'--:|' * len(_BUDGETS)}")
    for name in parser.parse_args().programs or _PROGRAMS:
        measure(name)


if __name__ == "__main__":
    main()
