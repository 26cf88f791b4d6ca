"""`hugealign profile reduce` as a function: profiles of programs become counts, which add up over hosts and releases.

The counts reveal the name of each program, its build-id, and names in its own symbol table.  A function that only the
profile names (an interpreter's, with the path of a script in it) is counted as outside all functions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hugealign.code.digests import digests
from hugealign.elf.symbols import Functions, functions_of
from hugealign.errors import HugealignError, UsageError
from hugealign.io.progress import silent
from hugealign.io.units import printable
from hugealign.profile import counts, read
from hugealign.profile.counts import Counts
from hugealign.profile.debugfiles import DebugFiles
from hugealign.profile.formats import FORMATS
from hugealign.profile.match import match
from hugealign.profile.model import Flow, Profile, ProfileError
from hugealign.profile.programs import programs
from hugealign.profile.ran import remarks
from hugealign.profile.source import Others


@dataclass(frozen=True, slots=True)
class ReduceOptions:
    """How profiles are reduced to counts.

    Attributes:
        blocks: Also count what ran inside functions, where the profile has addresses of the same build.
        max_unpacked: The most bytes to which a compressed profile may unpack.
        debuginfo: Directories of debug files; by default the usual ones.
    """

    blocks: bool = False
    max_unpacked: int | None = None
    debuginfo: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Reduced:
    """The *counts* of a host; *binaries* are the programs with samples, *sources* are (path, format) pairs."""

    counts: Counts
    binaries: Sequence[str]
    sources: Sequence[tuple[str, str]]

    def file(self) -> bytes:
        """Return the counts file."""
        return counts.write(self.counts)


_DEFAULT = ReduceOptions()


def reduce_profiles(
    profiles: Sequence[str],
    binaries: Sequence[str] = (),
    options: ReduceOptions = _DEFAULT,
    *,
    warn: Callable[[str], None] = silent,
) -> Reduced:
    """Count by build what ran.

    Args:
        profiles: The profiles, of any format that `hugealign order` reads.
        binaries: The programs to count; by default all that the profiles name and that exist here.
        options: How to reduce.
        warn: Called with one line for each warning.

    Raises:
        HugealignError: A file cannot be read, or no program is left to count.
    """
    paths = binaries or programs(profiles)
    if not paths:
        raise UsageError("profile reduce: which program ran? give it with -b, for example: -b ./server")
    counted_by_build: Counts = {}
    sources: dict[str, str] = {}
    ours = []
    warned: set[str] = set()
    debug = DebugFiles(options.debuginfo)
    mapped = {build: file for path in profiles for build, file in read.builds(path, options.max_unpacked).items()}
    chosen = [*_programs(paths, mapped, debug)]
    apart = frozenset(mapped) & {candidate.build_id for candidate in chosen}
    for program in chosen:
        functions = program.functions(debug)
        others = Others(debug, apart - {program.build_id})
        has_counts = False
        for path in profiles:
            profile = Profile(flow=Flow() if options.blocks else None)
            try:
                sources[path] = read.add(path, profile, functions, program.path, None, options.max_unpacked, others)
                has_counts |= _add(counted_by_build, profile, functions, program, _builds(path, sources[path]))
            except HugealignError as error:
                raise HugealignError(f"{printable(path)}: {error}") from None
            for note in remarks(profile, sources[path]):
                if (message := f"{printable(path)}: {note}") not in warned:
                    warned.add(message)
                    warn(message)
        if has_counts:
            ours.append(program.path)
        elif binaries and program.here:
            warn(f"{printable(program.path)}: no sample in the profile is in it")
    if not ours:
        raise HugealignError("no sample in the profile is in these programs; give the binary that ran (-b)")
    return Reduced(counted_by_build, ours, list(sources.items()))


@dataclass(frozen=True, slots=True)
class _Program:
    """A program at *path*; if it is not *here*, only the debug file of its build is."""

    path: str
    build_id: str
    here: bool = True

    def functions(self, debug: DebugFiles) -> Functions:
        """Return its functions, with names where there are some.  Raises HugealignError."""
        of_debug_file = None if self.here else debug.functions(self.build_id)
        return of_debug_file or debug.named(functions_of(self.path))


def _programs(named: Sequence[str], mapped: Mapping[str, str], debug: DebugFiles) -> Iterator[_Program]:
    """Yield the *named* programs, and other builds of them that were *mapped* and have debug files."""
    build_ids: set[str] = set()
    names = {path.rpartition("/")[2] for path in named}
    for path in named:
        build_id = functions_of(path).build_id if mapped else ""
        build_ids.add(build_id)
        yield _Program(path, build_id)
    for build_id, path in mapped.items():
        if build_id not in build_ids and path.rpartition("/")[2] in names and debug.functions(build_id):
            yield _Program(path, build_id, here=False)


def _builds(path: str, form: str) -> dict[str, str]:
    """Return the build-ids of the files that have samples, by path, where the profile knows them."""
    try:
        return known(path) if (known := FORMATS[form].builds) else {}
    except ProfileError:
        return {}


def _add(into: Counts, profile: Profile, functions: Functions, program: _Program, builds: dict[str, str]) -> bool:
    """Add the samples of *functions* in *profile* to *into*; return whether there are any."""
    matched = match(profile, functions)
    if not matched.samples:
        return False
    # Addresses are of this build, or are assumed to be; names may be of any build.
    exact = any(isinstance(place, int) for place in profile.samples)
    name = program.path.rpartition("/")[2]
    others = {build_id for path, build_id in builds.items() if path.rpartition("/")[2] == name}
    build_id = functions.build_id if exact else others.pop() if len(others) == 1 else ""
    head = counts.head(build_id, name)
    new = head not in into
    mine = into.setdefault(head, {})
    if new:
        counts.add(mine, counts.HOSTS, 1)
    for key, count in (
        (counts.FOREIGN, matched.foreign),
        (counts.OUTSIDE, matched.total - matched.hits),
        (counts.BAD, profile.bad),
    ):
        if count:
            counts.add(mine, key, count)
    codes = digests(program.path, functions, matched.samples) if exact and program.here else {}
    ends = {}
    for index, count in matched.samples.items():
        address = functions.starts[index] if exact or not functions.names[index] else None
        known = functions.names[index], functions.files[index]
        ends[index] = counts.end(address, *known)
        counts.add(mine, counts.function(address, *known, codes.get(index, b"")), count)
    for (caller, callee, offset), count in matched.arcs.items():
        counts.add(mine, counts.call(ends[caller], offset, ends[callee]), count)
    if exact and profile.flow is not None:
        _inside(mine, profile.flow)
    return True


def _inside(mine: dict[bytes, int], flow: Flow) -> None:
    for kind, pairs in ((b"r", flow.runs), (b"j", flow.jumps)):
        for (first, last), count in pairs.items():
            counts.add(mine, b"%b\t%x\t%x" % (kind, first, last), count)
    for address, count in flow.returns.items():
        counts.add(mine, b"b\t%x" % address, count)
