"""What ``order`` and ``map`` have in common: profiles of a binary, and the options of windows."""

import argparse
import sys
from dataclasses import dataclass

from hugealign.errors import HugealignError, UsageError
from hugealign.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hugealign.elf.symbols import Functions
    from hugealign.lab.tracefile import Trace
    from hugealign.ordering.budget import Budget
    from hugealign.profile.match import Matched
    from hugealign.profile.model import Profile

#: Below this share of samples found, the profile is taken for one of another program.
LEAST_MATCHED = 0.5


class MismatchError(HugealignError):
    """The profile is of another program."""

    exit_status = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of profiles, and those of windows."""
    add = parser.add_argument
    add("--type", metavar="FORMAT", help="do not look: the profiles are of this format")
    add("--force", action="store_true", help="go on even if most of the samples are not found")
    add = parser.add_argument_group("windows").add_argument
    add("--page-size", default="2M", metavar="SIZE", help="the huge page size (default: 2M)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--cpu", action="append", metavar="NAME", help="budget for this processor (default: the one that runs this)"
    )
    which.add_argument("--itlb-2m", type=int, metavar="N", help="budget for N instruction TLB entries; 0: none huge")
    add("--reserve", type=int, default=1, metavar="N", help="entries left to others (default: 1)")
    add("--no-fill", action="store_true", help="only functions that the profile saw")


def read_functions(path: str) -> "Functions":
    """Return the functions of the file at *path*.  Raises HugealignError, which names the file."""
    from hugealign.elf import symbols

    try:
        return symbols.read_functions(path)
    except HugealignError as error:
        raise HugealignError(f"{printable(path)}: {error}") from None
    except (OSError, ValueError) as error:
        raise HugealignError(f"{printable(path)}: {getattr(error, 'strerror', None) or error}") from None


def read_profiles(
    paths: "Sequence[str]", binary: str, functions: "Functions", args: argparse.Namespace
) -> "tuple[Matched, list[tuple[str, str]]]":
    """Return what the profiles say of *binary*, added up, and the format of each; say what is odd about them.

    Raises HugealignError; MismatchError if too little is found in the binary.
    """
    from hugealign.profile.match import match
    from hugealign.profile.model import Profile

    profile = Profile()
    read = [(path, _add(path, profile, functions, binary, args.type)) for path in paths]
    matched = match(profile, functions)
    if not matched.samples:
        where = f"; {profile.foreign} samples are in other files" if profile.foreign else ""
        raise MismatchError(f"nothing in the profile is of {printable(binary)}{where}; give the binary that ran")
    _check_rate(matched, binary, "samples", args.force)
    return matched, read


@dataclass(frozen=True, slots=True)
class Traced:
    """A *trace*, and what ran of one *file* in it, whose path is *binary*; its samples are instructions."""

    trace: "Trace"
    file: int
    binary: str
    functions: "Functions"
    matched: "Matched"


def read_trace(path: str, binary: str | None, force: bool, progress: "Callable[[str], None]") -> Traced:
    """Return what ran of *binary*, by default the program that was traced; say what is odd about the trace.

    Raises HugealignError, which names the file; MismatchError if too little is found in the binary.
    """
    from hugealign.lab.files import find
    from hugealign.lab.simulate import profile
    from hugealign.lab.tracefile import open_trace

    trace = open_trace(path)
    found = trace.description
    binary = found.files[found.program].path if binary is None else binary
    file = find(found.files, binary)
    functions = read_functions(binary)
    total = max(1, found.events)
    matched, uncounted = profile(trace, file, functions, lambda done: progress(f"{done * 100 // total} % read"))
    if not matched.samples:
        raise MismatchError(f"{printable(path)}: no function of {printable(binary)} runs in this trace")
    _check_rate(matched, binary, "instructions", force)
    remarks = (
        (found.cut, f"the trace is cut: {printable(found.cut or '')}"),
        (found.execs, f"{found.execs} times, a process became another program, which is not in the trace"),
        (found.lost, f"{found.lost} threads are not in the trace"),
        (uncounted, f"{uncounted} calls are left out: too many different ones"),
    )
    for true, remark in remarks:
        if true:
            warn(f"{printable(path)}: {remark}")
    return Traced(trace, file, binary, functions, matched)


def _check_rate(matched: "Matched", binary: str, unit: str, force: bool) -> None:
    """Raise MismatchError unless enough of the samples (*unit*) lie in functions of *binary*, or it is forced."""
    if matched.total and matched.rate < LEAST_MATCHED:
        if not force:
            names = ", ".join(printable(name[:60]) for name, _ in matched.missing[:3])
            raise MismatchError(
                f"only {matched.rate:.0%} of the {unit} are in functions of {printable(binary)} (not: {names}); "
                "give the binary that ran, or --force"
            )
        warn(f"only {matched.rate:.0%} of the {unit} found; --force goes on all the same")


def budget(args: argparse.Namespace) -> "Budget":
    """Return the budget that the options ask for.  Raises UsageError."""
    from hugealign.ordering import budget as budgets

    if args.cpu and len(args.cpu) > 1:
        raise UsageError("--cpu: one is enough; only `order --trace` takes several")
    return budgets.budget(args.cpu[0] if args.cpu else None, args.itlb_2m, args.reserve)


def warn(message: str) -> None:
    """Say *message* on standard error."""
    print(f"hugealign: warning: {message}", file=sys.stderr)


def _add(path: str, profile: "Profile", functions: "Functions", binary: str, wanted: str | None) -> str:
    """Add the profile at *path* to the others, say what is odd about it, and return its format."""
    from hugealign.profile import read

    if wanted is not None and wanted not in read.FORMATS:
        raise UsageError(f"--type: unknown; known are {', '.join(read.FORMATS)}")
    profile.good = profile.bad = profile.first_bad = 0
    profile.notes.clear()
    try:
        form = read.add(path, profile, functions, binary, wanted)
    except HugealignError as error:
        raise HugealignError(f"{printable(path)}: {error}") from None
    if profile.bad:
        lines = "line is" if profile.bad == 1 else "lines are"
        first = f" (first: line {profile.first_bad})" if profile.first_bad else ""
        warn(f"{printable(path)}: {profile.bad} {lines} not {form}{first}, left out")
    for note in profile.notes:
        warn(f"{printable(path)}: {note}")
    return form
