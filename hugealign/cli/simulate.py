"""``hugealign simulate TRACE``: the instruction TLB misses of a trace under layouts, on processors."""

import argparse
import json

from hugealign.errors import HugealignError, UsageError
from hugealign.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hugealign.lab.geometry import Geometry
    from hugealign.lab.placement import Placement
    from hugealign.lab.simulate import Row, Simulation
    from hugealign.lab.tracefile import Trace

_CPUS = ("skylake", "sapphirerapids", "zen3", "neoverse-n1")
_WINDOWS_LIMIT = 4096

_EPILOG = """\
layouts:
  original     addresses as in the file, the leading N windows of 2 MiB huge
  order:FILE   the functions of an order file first, the others behind them, as
               `hugealign order` has a linker do it; the leading N windows huge
  elf:FILE     as in FILE, another link of the same objects; the leading N windows huge
  all-4k       as original, with 4 KiB pages
  all-2m       as original, with every window of the text huge

A row is the number of huge windows that misses least; --curve shows every N.
Other files than the program's (libraries) are on 4 KiB pages.  Each thread counts
as a processor of its own; with --from and --until that part of it, the TLBs empty
where it begins, and threads that never enter the function not at all.  Functions
are named as by `nm`.  Data and the kernel, which share the second level, are not
simulated: walks are fewer than in life.

exit status: 0 done; 2 wrong usage; 3 the trace or another file cannot be used.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("trace", metavar="TRACE", help="what `hugealign trace` wrote")
    parser.add_argument("--binary", metavar="EXE", help="lay out this file; default: the program that was traced")
    parser.add_argument(
        "--layout", action="append", metavar="LAYOUT", help="may be repeated; default: original, all-4k and all-2m"
    )
    parser.add_argument("--windows", default="0-16", metavar="N|M-N", help="huge windows to try; default: 0-16")
    parser.add_argument(
        "--cpu",
        action="append",
        metavar="NAME",
        help=f"may be repeated; zen4 and the like, or as 4k=128/8,2m=8,l2=1536/12; default: {', '.join(_CPUS)}",
    )
    parser.add_argument(
        "--from", dest="first", metavar="FUNCTION", help="count what runs after a thread first enters it"
    )
    parser.add_argument("--until", dest="last", metavar="FUNCTION", help="and before it next enters this")
    parser.add_argument("--curve", action="store_true", help="show the misses for every number of huge windows")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(args: argparse.Namespace) -> int:
    """Replay the trace and print the table."""
    counts = _counts(args.windows)
    from hugealign.cli import output
    from hugealign.lab.simulate import simulate
    from hugealign.lab.tracefile import open_trace
    from hugealign.progress import Progress

    cpus = _cpus(args.cpu or list(_CPUS))
    names = _unique(args.layout or ["original", "all-4k", "all-2m"])
    trace = open_trace(args.trace)
    file, path = _file(trace, args.binary)
    layouts = [_layout(trace, file, path, name, counts) for name in names]
    marks = _marks(trace, file, path, args)
    progress = Progress("hugealign: simulate")
    total = max(1, trace.description.events)
    try:
        done = simulate(trace, layouts, cpus, lambda events: progress.say(f"{events * 100 // total} %"), marks)
    finally:
        progress.clear()
    _check(trace, done, args)
    report = _json(trace, path, done, args) if args.format == "json" else _text(trace, path, done, args)
    output.write(report, None, utf8=args.format == "json")
    return 0


def _marks(trace: "Trace", file: int, path: str, args: argparse.Namespace) -> bytes | None:
    """Return what counts of each thread, None for all of it."""
    if args.first is None and args.last is None:
        return None
    from hugealign.elf.symbols import read_functions
    from hugealign.lab.files import find
    from hugealign.lab.part import marks

    find(trace.description.files, path)
    functions = read_functions(path)
    try:
        return marks(trace, file, functions, args.first, args.last)
    except HugealignError as error:
        raise type(error)(f"{printable(trace.path)}: {printable(path)}: {error}") from None


def _check(trace: "Trace", done: "Simulation", args: argparse.Namespace) -> None:
    """Raise HugealignError where the part that was asked for has no end: all to the end is not what was meant."""
    if args.last is not None and not done.ended:
        behind = f" after {printable(args.first)}" if args.first is not None else ""
        raise HugealignError(f"{printable(trace.path)}: no thread enters {printable(args.last)}{behind}")


def _unique(words: "Sequence[str]") -> list[str]:
    return list(dict.fromkeys(words))


def _counts(text: str) -> range:
    first, dash, last = text.partition("-")
    if not all(word.isascii() and word.isdigit() and len(word) < 9 for word in ((first, last) if dash else (first,))):
        raise UsageError("--windows: not a number, or a range such as 0-16")
    low, high = int(first), int(last or first)
    if not low <= high <= _WINDOWS_LIMIT:
        raise UsageError(f"--windows: not a range of numbers up to {_WINDOWS_LIMIT}")
    return range(low, high + 1)


def _cpus(words: "Sequence[str]") -> "list[Geometry]":
    from hugealign.lab.geometry import geometry, parse
    from hugealign.processor.table import find

    return [parse(word) if "=" in word else geometry(find(word)) for word in _unique(words)]


def _file(trace: "Trace", binary: str | None) -> tuple[int, str]:
    """Return the number of the file to lay out, and where it is."""
    from hugealign.lab.files import find

    if binary is not None:
        return find(trace.description.files, binary), binary
    return trace.description.program, trace.description.files[trace.description.program].path


def _layout(
    trace: "Trace", file: int, path: str, name: str, counts: "Sequence[int]"
) -> "tuple[Placement, Sequence[int]]":
    from hugealign.lab import placement
    from hugealign.lab.files import find
    from hugealign.lab.orders import read_order

    kind, colon, order = name.partition(":")
    try:
        if kind == "order" and order:
            find(trace.description.files, path)
            functions, indices = read_order(order, path)
            return placement.ordered(trace, file, name, functions, indices), counts
        if kind == "elf" and order:
            from hugealign.lab.relinked import relinked_file

            find(trace.description.files, path)
            return relinked_file(trace, file, name, path, order), counts
        if not colon and kind == "original":
            return placement.original(trace, file), counts
        if not colon and kind in ("all-4k", "all-2m"):
            found = placement.original(trace, file, kind)
            return found, (0 if kind == "all-4k" else found.windows,)
    except HugealignError as error:
        raise type(error)(f"{printable(trace.path)}: layout {printable(name)}: {error}") from None
    raise UsageError(f"--layout: {printable(name)}: not one of original, all-4k, all-2m, order:FILE, elf:FILE")


def _mpki(row: "Row", done: "Simulation") -> float:
    return row.misses * 1000 / done.instructions if done.instructions else 0.0


def _groups(done: "Simulation") -> "dict[tuple[str, str], list[Row]]":
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in done.rows:
        groups.setdefault((row.layout, row.cpu), []).append(row)
    return groups


def _text(trace: "Trace", path: str, done: "Simulation", args: argparse.Namespace) -> str:
    from hugealign.lab.simulate import best

    groups = _groups(done)
    wide = max(6, *(len(printable(layout)) for layout, _ in groups))
    names = max(3, *(len(printable(cpu)) for _, cpu in groups))
    threads = f"{done.threads} thread{'s' * (done.threads != 1)}"
    lines = [
        f"{printable(path)}: {done.events:,} blocks, {done.instructions:,} instructions, {threads}",
        *_part(trace, done, args),
        *_remarks(trace, done),
        "",
        f"{'layout':{wide}}  {'CPU':{names}}  windows          misses           walks      MPKI",
    ]
    for (layout, cpu), rows in groups.items():
        lines += [
            f"{printable(layout):{wide}}  {printable(cpu):{names}}  {row.windows:7}  {row.misses:14,}  "
            f"{'--' if row.walks is None else format(row.walks, ','):>14}  {_mpki(row, done):8.3f}"
            for row in (rows if args.curve else [best(rows)])
        ]
    return "\n".join(lines) + "\n"


def _part(trace: "Trace", done: "Simulation", args: argparse.Namespace) -> list[str]:
    """Return what says which part counts."""
    words = [f"{word} {printable(name)}" for word, name in (("from", args.first), ("until", args.last)) if name]
    return [f"{' '.join(words)}: {done.threads} of {len(trace.streams)} threads"] if words else []


def _remarks(trace: "Trace", done: "Simulation") -> list[str]:
    """Return what one must know to trust the numbers."""
    found = trace.description
    lines = []
    if found.cut:
        lines.append(f"the trace is cut: {printable(found.cut)}")
    if found.execs:
        lines.append(f"{found.execs} times, a process became another program, which is not in the trace")
    if found.lost:
        lines.append(f"{found.lost} threads are not in the trace")
    if share := done.uncovered * 1000 // max(1, done.events):
        lines.append(f"{share / 10} % of the blocks lie outside of files (a JIT?): on 4 KiB pages in every layout")
    return lines


def _json(trace: "Trace", path: str, done: "Simulation", args: argparse.Namespace) -> str:
    found = trace.description
    document = {
        "schema": "hugealign.simulate/1",
        "binary": path,
        "command": list(found.command),
        "machine": found.machine,
        "blocks": done.events,
        "instructions": done.instructions,
        "threads": done.threads,
        "from": args.first,
        "until": args.last,
        "outside_of_files": done.uncovered,
        "cut": found.cut,
        "execs": found.execs,
        "lost_threads": found.lost,
        "rows": [
            {
                "layout": row.layout,
                "cpu": row.cpu,
                "windows": row.windows,
                "misses": row.misses,
                "walks": row.walks,
                "mpki": round(_mpki(row, done), 6),
            }
            for row in done.rows
        ],
    }
    return json.dumps(document, indent=2) + "\n"
