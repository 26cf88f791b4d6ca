"""Recompiles the members of LLVM's archives that ran, from Debian's sources, to divide their blocks.

Debian's archives hold machine code.  The members with nearly all code of the first run are compiled here, once to
optimized bitcode; from that clang makes objects with the map of blocks, and divided ones.  They replace those members
in copies of the archives.
"""

import dataclasses
import json
import os
import re
import shlex
import shutil
import subprocess
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

from hugealign.elf.symbols import read_functions
from hugealign_lab.files import find
from hugealign_lab.ran import profile
from lab.bench.peers import builds, measure
from lab.bench.peers.figures import most
from lab.bench.peers.program import WORK, Program, fingerprint, record, recorded
from lab.bench.peers.units import divisible, units
from lab.bench.sources import sources
from tests.support import HUGEALIGN

# The shares of the first run in the recompiled members.
_CALLED, _BYTES = Fraction(999, 1000), Fraction(98, 100)
_MEMBER = re.compile(r"/lib([^/]+)\.a\(([^()]+)\)$")
_SECTION = re.compile(r"^ (?:\.text\S*)?\s*0x([0-9a-f]{16})\s+0x([0-9a-f]+) (\S.*)$")
_DEFINED = re.compile(r"; ([\w-]+\.o):\S+ first defined here")
_OBJECT = re.compile(r"CMakeFiles/(?:obj\.)?([^/]+)\.dir/")
_GENERATED = re.compile(r"^(\S+\.(?:inc|def|gen|h)): CUSTOM_COMMAND$", re.MULTILINE)
_OPTIONS = (
    *("-GNinja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"),
    *("-DCMAKE_C_COMPILER=clang-19", "-DCMAKE_CXX_COMPILER=clang++-19"),
    # As in Debian's rules: the objects are linked with Debian's.
    *("-DLLVM_ENABLE_RTTI=ON", "-DLLVM_ENABLE_PIC=ON", "-DLLVM_ENABLE_DUMP=ON"),
    *(f"-DLLVM_INCLUDE_{what}=OFF" for what in ("TESTS", "EXAMPLES", "BENCHMARKS", "DOCS")),
    *(f"-DLLVM_ENABLE_{what}=OFF" for what in ("LIBXML2", "Z3_SOLVER", "CURL")),
)

ABOUT = (
    "linked from Debian's archives; nearly all code that the first run executes is compiled from the same sources "
    "by clang 19 at -O2 (`lab/bench/peers/llvm.py`)"
)
_FLAGS = ("-x", "ir", "-Xclang", "-disable-llvm-passes")
Member = tuple[str, str]  # of an archive: the library's name, and the member's own


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """Debian's source *package* of an LLVM *release*, and how it is configured: *projects*, *targets*."""

    release: int
    projects: str
    targets: str

    @property
    def package(self) -> str:
        """The source package's name."""
        return f"llvm-toolchain-{self.release}"

    @property
    def directory(self) -> Path:
        """The directory where it is unpacked, configured and compiled."""
        return WORK / self.package


LLVM_14 = Source(14, "", "all")
LLVM_19 = Source(19, "clang;mlir", "X86;AMDGPU;NVPTX")


def compiled_again(program: Program, source: Source) -> Program:
    """Return *program* with the members of its archives that `ran` recompiled.

    They keep their places in the archives, so the linker's order is the same as Debian's.  Polly is left out: the
    recompiled members do not call it.  GNU ld would take nothing from it, but LLD would take a template's static
    member, for which any archive would do, and with it 9,474 functions, some of which run at every start.
    """
    members = bitcode(source, ran(program))
    clashing = {""}
    while clashing:
        clashing = _clashing(divisible(program, list(members), _FLAGS))
        members = {path: member for path, member in members.items() if f"{path.stem}.o" not in clashing}

    def words(place: str, made: tuple[str, ...]) -> tuple[str, ...]:
        result = _with_archives(program, place, dict(zip(made, members.values(), strict=True)))
        return tuple(word for word in result if not word.startswith("-lPolly"))

    def divided(order: Path) -> tuple[str, ...]:
        front = (str(HUGEALIGN), f"--profile={order}", "clang-19")
        made = units(program.directory, "divided/", list(members), _FLAGS, *front, reads=(order,))
        return words("divided/archives", made)

    flags = (*_FLAGS, "-fbasic-block-address-map")
    mapped = units(program.directory, "", list(members), flags, "clang-19", reads=())
    return dataclasses.replace(program, words=words("archives", mapped), divided=divided)


def _with_archives(program: Program, place: str, members: dict[str, Member]) -> tuple[str, ...]:
    """Return the words of *program* with copies of its archives, below *place*, whose *members* are replaced."""
    libraries: dict[str, list[tuple[str, str]]] = {}
    for made, (library, name) in members.items():
        libraries.setdefault(library, []).append((made, name))
    directory, words = program.directory, list(program.words)
    searched = [directory / word[2:] for word in words if word.startswith("-L")]
    for library, replaced in libraries.items():
        file = f"lib{library}.a"
        at = next(n for n, word in enumerate(words) if word == f"-l{library}" or word.endswith(f"/{file}"))
        paths = [directory / words[at], *(path / file for path in searched)]
        original = next(path for path in paths if path.is_file())
        words[at] = f"{place}/{file}"
        target = directory / words[at]
        mark = fingerprint(["ar", "r", str(original)], [directory / made for made, _ in replaced])
        if recorded(target, mark) is None:
            own = directory / place / library
            shutil.rmtree(own, ignore_errors=True)
            own.mkdir(parents=True)
            for made, name in replaced:  # the member's name is the file's
                (own / name).symlink_to(directory / made)
            shutil.copyfile(original, target)
            subprocess.run(["ar", "r", target, *(own / name for _, name in replaced)], check=True)
            record(target, mark)
    return tuple(words)


def _clashing(program: Program) -> set[str]:
    """Return the objects whose archive member is linked all the same, for a symbol that only it has.

    *program* links the objects before the archives.
    """
    command, path = builds.link(program, "fits", "-fuse-ld=bfd")
    done = subprocess.run(command, cwd=program.directory, capture_output=True, text=True, check=False)
    result = set(_DEFINED.findall(done.stderr))
    if done.returncode and not result:
        raise SystemExit(done.stderr[-2000:])
    path.unlink(missing_ok=True)
    return result


def ran(program: Program) -> list[Member]:
    """Return the members of archives that run in the first run of *program*, as compiled by Debian.

    They are the fewest with `_CALLED` of all calls, and the fewest with `_BYTES` of the functions that ran.
    """
    command, path = builds.link(program, "debian", "-fuse-ld=bfd", "-Wl,-Map=debian.map")
    builds.made(program, command, path)
    sections = sorted(_sections(path.with_suffix(".map")))
    starts = [address for address, _, _ in sections]
    functions = read_functions(path)
    trace = measure.traced(program, path, program.train, "debian")
    matched, _ = profile(trace, find(trace.description.files, str(path)), functions)
    calls, sizes = Counter[str](), Counter[str]()

    def count(counted: Counter[str], index: int, much: int) -> None:
        address, size, place = sections[bisect_right(starts, functions.starts[index]) - 1]
        if functions.starts[index] < address + size:
            counted[place] += much

    for (_, callee, _), times in matched.arcs.items():
        count(calls, callee, times)
    for index in matched.samples:
        count(sizes, index, functions.sizes[index])
    places = most(calls, _CALLED) | most(sizes, _BYTES)
    return sorted((result[1], result[2]) for result in map(_MEMBER.search, places) if result)


def _sections(path: Path) -> Iterator[tuple[int, int, str]]:
    """Yield the address, size and file of each input section in GNU ld's map at *path*."""
    with path.open(errors="replace") as lines:
        for line in lines:
            match = _SECTION.match(line)
            if match and int(match[2], 16):
                yield int(match[1], 16), int(match[2], 16), match[3].strip()


def bitcode(source: Source, wanted: list[Member]) -> dict[Path, Member]:
    """Return the optimized bitcode of the *wanted* members whose source is in Debian's package."""
    known = commands(source)
    place = source.directory / "bitcode"
    place.mkdir(exist_ok=True)
    jobs = {place / f"{stem(member)}.bc": member for member in wanted}

    def make(target: Path) -> Path | None:
        result = known.get(jobs[target])
        if result is None:  # for example a target that is not built by default
            return None
        words, inside = result
        argv = [*words, "-O2", "-w", "-emit-llvm", "-o", str(target)]
        mark = fingerprint(argv, [])
        if recorded(target, mark) is None:
            subprocess.run(argv, cwd=inside, check=True)
            record(target, mark)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return {path: jobs[path] for path in pool.map(make, jobs) if path}


def _configured(source: Source) -> Path:
    """Return the directory where *source* is configured, with all generated headers."""
    sources(WORK, [source.package])
    build = source.directory / "configured"
    if not (build / "generated").exists():
        tree = source.directory / "tree"
        # Debian's patches, some of which add members to classes.
        subprocess.run(["dpkg-source", "--before-build", tree], check=True, stdout=subprocess.DEVNULL)
        which = (f"-DLLVM_ENABLE_PROJECTS={source.projects}", f"-DLLVM_TARGETS_TO_BUILD={source.targets}")
        tablegen = f"-DLLVM_TABLEGEN=/usr/lib/llvm-{source.release}/bin/llvm-tblgen"
        command = ["cmake", *_OPTIONS, *which, tablegen, "-B", str(build), "-S", str(tree / "llvm")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        listed = ["ninja", "-C", str(build), "-t", "targets", "all"]
        every = subprocess.run(listed, check=True, capture_output=True, text=True).stdout
        headers = sorted(set(_GENERATED.findall(every)))
        subprocess.run(["ninja", "-C", str(build), *headers], check=True, stdout=subprocess.DEVNULL)
        (build / "generated").touch()
    return build


def stem(member: Member) -> str:
    """Return the name of a member's files here, without their suffixes."""
    library, name = member
    return f"{library}-{Path(name).stem.removesuffix('.cpp')}"


def commands(source: Source) -> dict[Member, tuple[list[str], str]]:
    """Return the command that compiles each member, without output and optimization level, and its directory."""
    result: dict[Member, tuple[list[str], str]] = {}
    for command in json.loads((_configured(source) / "compile_commands.json").read_text()):
        words = shlex.split(command["command"])
        at = words.index("-o")
        library = _OBJECT.search(words[at + 1])
        if library:
            rest = [word for word in (*words[:at], *words[at + 2 :]) if word != "-O3"]
            result.setdefault((library[1], Path(words[at + 1]).name), (rest, command["directory"]))
    return result
