"""What ran of a program: the sum of profiles, in terms of its functions."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hugealign.elf.symbols import Functions, functions_of
from hugealign.errors import HugealignError, UsageError
from hugealign.io.progress import silent
from hugealign.io.units import are, counted, printable
from hugealign.profile import read
from hugealign.profile.debugfiles import DebugFiles
from hugealign.profile.formats import FORMATS
from hugealign.profile.match import Matched, match
from hugealign.profile.model import Flow, Profile
from hugealign.profile.source import Others
from hugealign.records import Record

#: If less than this share of samples is found, the profile is taken to be of another program.
LEAST_MATCHED = 0.5
_SOURCES_SHOWN = 3
_LOOKED_AT = 1000  # characters of a name: the pattern takes time in the square of a hostile one's length
#: Names in C++ or Rust as a tool shows them; in Go, symbols have parentheses.
_DEMANGLED = re.compile(r"::|[\w>]\(.*\)(?: const)?\Z", re.DOTALL)


class MismatchError(HugealignError):
    """The profile is of another program."""

    exit_status = 1


class Source(Record):
    """A profile that was read."""

    path: str
    form: str
    """Its format."""

    JSON = "path format=form"


@dataclass(frozen=True, slots=True)
class Ran:
    """What ran of a file."""

    binary: str
    """The path of the file."""
    functions: Functions
    matched: Matched
    sources: Sequence[tuple[str, str]]
    """The paths and formats of profiles."""
    unit: str = "samples"
    """One of `samples`, `instructions` (of a trace)."""

    @property
    def profiles(self) -> tuple[Source, ...]:
        """What says which functions ran."""
        return tuple(Source(*pair) for pair in self.sources)


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """How profiles are read.

    *form* is their format, by default detected.  *max_unpacked* limits the unpacked size of compressed profiles, in
    bytes.  *debuginfo* are directories of debug files, by default the usual
    ones.  *force* goes on although most samples are not of the binary.
    """

    form: str | None = None
    max_unpacked: int | None = None
    debuginfo: Sequence[str] | None = None
    force: bool = False


_DEFAULT = ProfileOptions()


def what_ran(
    binary: str,
    profiles: Sequence[str],
    options: ProfileOptions = _DEFAULT,
    *,
    flow: Flow | None = None,
    warn: Callable[[str], None] = silent,
    progress: Callable[[str], None] = silent,
) -> Ran:
    """Return what the sum of *profiles* says about *binary*.

    What they say about the inside of functions is added to *flow*, if there is one.  Warnings go to *warn*, and
    *progress* is called with each step.

    Raises HugealignError, and MismatchError if too little is found in the binary.
    """
    form = options.form
    if form is not None and form not in FORMATS:
        raise UsageError(f"--type: unknown format; known are {', '.join(FORMATS)}")
    debug = DebugFiles(options.debuginfo)
    functions, others = debug.named(functions_of(binary)), Others(debug)
    profile, sources = Profile(flow=flow), []
    for path in profiles:
        progress(f"reading {printable(path)}")
        profile = profile.following()
        try:
            form_read = read.add(path, profile, functions, binary, form, options.max_unpacked, others)
        except HugealignError as error:
            raise HugealignError(f"{printable(path)}: {error}") from None
        sources.append((path, form_read))
        for note in remarks(profile, form_read):
            warn(f"{printable(path)}: {note}")
    matched = match(profile, functions)
    if not matched.samples:
        foreign = profile.foreign
        where = f"; {counted(foreign, 'sample')} {are(foreign)} in other files" if foreign else ""
        if where and profile.others:
            where += f", such as {', '.join(map(printable, profile.others))}"
        how = ", ".join(
            f"{printable(path)} as {FORMATS[form_read].title}" for path, form_read in sources[:_SOURCES_SHOWN]
        )
        renamed = foreign and profile.others
        advice = "give the file that ran, under its name (-b)" if renamed else _advice(matched, sources)
        raise MismatchError(f"no sample in the profile is in {printable(binary)}{where} (read: {how}); {advice}")
    ran = Ran(binary, functions, matched, sources)
    check_rate(ran, options.force, warn, f"{_advice(matched, sources)}, or --force")
    return ran


def _advice(matched: Matched, sources: Sequence[tuple[str, str]]) -> str:
    """Return what to do if too little of a profile is found."""
    demangled = sum(count for name, count in matched.missing if _DEMANGLED.search(name[:_LOOKED_AT]))
    if not demangled or 2 * demangled < sum(count for _, count in matched.missing):
        return "give the binary that ran"
    way = "use valgrind --demangle=no" if sources[-1][1] == "callgrind" else "make it without demangling"
    return f"it has demangled names, which no symbol has: {way}"


def remarks(profile: Profile, form: str) -> list[str]:
    """Return warnings about the profile that was read last."""
    if not profile.bad:
        return profile.notes
    lines = "line is" if profile.bad == 1 else "lines are"
    first = f" (first: line {profile.first_bad})" if profile.first_bad else ""
    return [f"{profile.bad} {lines} not {form}{first}, left out", *profile.notes]


def check_rate(
    ran: Ran, force: bool, warn: Callable[[str], None], advice: str = "give the binary that ran, or --force"
) -> None:
    """Raise MismatchError unless enough of the samples lie in functions of the binary; with *force*, only warn."""
    matched, unit = ran.matched, ran.unit
    if not matched.total or matched.rate >= LEAST_MATCHED:
        return
    if not force:
        names = ", ".join(printable(name[:60]) for name, _ in matched.missing[:3])
        raise MismatchError(
            f"only {matched.rate:.0%} of the {unit} are in functions of {printable(ran.binary)} (not: {names}); "
            f"{advice}"
        )
    warn(f"only {matched.rate:.0%} of the {unit} found; --force continues anyway")
