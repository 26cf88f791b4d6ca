"""`hugealign simulate` as a function: replays a trace under named layouts, on named processors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hugealign import orderfile
from hugealign.elf.symbols import read_functions
from hugealign.errors import HugealignError, UsageError
from hugealign.io.progress import silent
from hugealign.io.units import printable
from hugealign.orderfile import Entry, OrderFile
from hugealign.ordering.named import indices
from hugealign_lab import placement
from hugealign_lab.files import find
from hugealign_lab.geometry import named
from hugealign_lab.part import marks
from hugealign_lab.placement import Placement
from hugealign_lab.relinked import relinked_file
from hugealign_lab.simulate import Simulation, simulate
from hugealign_lab.tracefile import Trace, open_trace

CPUS = ("skylake", "sapphirerapids", "zen3", "neoverse-n1")
LAYOUTS = ("original", "all-4k", "all-2m")
WINDOWS = range(17)
_INSTEAD = "with --binary"


@dataclass(frozen=True, slots=True)
class Simulated:
    """A finished simulation: the *trace*, the *binary* that was laid out, and the functions between which it counts."""

    trace: Trace
    binary: str
    done: Simulation
    first: str | None = None
    last: str | None = None


def simulated(
    path: str,
    binary: str | None = None,
    *,
    layouts: Sequence[str] = LAYOUTS,
    windows: Sequence[int] = WINDOWS,
    cpus: Sequence[str] = CPUS,
    first: str | None = None,
    last: str | None = None,
    progress: Callable[[int], None] = silent,
) -> Simulated:
    """Return the misses of the trace at *path* under each of *layouts*, on each of *cpus*, by number of huge *windows*.

    *binary* is laid out, by default the program that was traced.  A layout is ``original``, ``all-4k``, ``all-2m``,
    ``order:FILE`` or ``elf:FILE``.  The part of a thread that counts begins with the function *first* and ends
    with *last*.  *progress* is called with the percentage done.  Raises HugealignError.
    """
    processors = [named(word) for word in dict.fromkeys(cpus)]
    trace = open_trace(path)
    description = trace.description
    file = description.program if binary is None else find(description.files, binary, _INSTEAD)
    binary = description.files[file].path if binary is None else binary
    placed = [_layout(trace, file, binary, name, windows) for name in dict.fromkeys(layouts)]
    part = _part(trace, file, binary, first, last)
    done = simulate(trace, placed, processors, progress, part)
    if last is not None and not done.ended:  # the user did not mean all to the end
        behind = f" after {printable(first)}" if first is not None else ""
        raise HugealignError(f"{printable(path)}: no thread enters {printable(last)}{behind}")
    return Simulated(trace, binary, done, first, last)


def _part(trace: Trace, file: int, binary: str, first: str | None, last: str | None) -> bytes | None:
    """Return the mark of each block; None if all of each thread counts."""
    if first is None and last is None:
        return None
    find(trace.description.files, binary, _INSTEAD)
    functions = read_functions(binary)
    try:
        return marks(trace, file, functions, first, last)
    except HugealignError as error:
        raise _about(f"{printable(trace.path)}: {printable(binary)}", error) from None


def _about(subject: str, error: HugealignError) -> HugealignError:
    """Return *error* with its *subject* in front, and its exit status."""
    kind = UsageError if isinstance(error, UsageError) else HugealignError
    return kind(f"{subject}: {error}")


def _order(path: str) -> OrderFile:
    """Return the order in the file at *path*, ours or a list of names with comments after ``#``, as lld takes it."""
    if orderfile.is_order(path):
        return orderfile.load(path)
    data = orderfile.contents(path)
    names = [line.partition(b"#")[0].strip() for line in data.split(b"\n")] if b"\0" not in data else []
    return OrderFile({}, [Entry(name.decode("utf-8", "surrogateescape")) for name in names if name])


def _layout(trace: Trace, file: int, path: str, name: str, counts: Sequence[int]) -> tuple[Placement, Sequence[int]]:
    """Return the layout *name*, and the numbers of huge windows to try with it."""
    kind, colon, other = name.partition(":")
    try:
        if kind in ("order", "elf") and other:
            find(trace.description.files, path, _INSTEAD)
            if kind == "elf":
                return relinked_file(trace, file, name, path, other), counts
            order, functions = _order(other), read_functions(path)
            return placement.ordered(trace, file, name, functions, indices(order, other, functions, path)), counts
        if not colon and kind == "original":
            return placement.original(trace, file), counts
        if not colon and kind in ("all-4k", "all-2m"):
            layout = placement.original(trace, file, kind)
            return layout, (0 if kind == "all-4k" else layout.windows,)
    except HugealignError as error:
        raise _about(f"{printable(trace.path)}: layout {printable(name)}", error) from None
    except OverflowError:  # an address and the file's number exceed 64 bits
        damaged = "no program lies at such addresses; the file is damaged"
        raise HugealignError(f"{printable(trace.path)}: layout {printable(name)}: {damaged}") from None
    raise UsageError(f"--layout: {printable(name)}: not one of original, all-4k, all-2m, order:FILE, elf:FILE")
