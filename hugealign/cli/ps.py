"""The command ``hugealign ps``: is the text of running processes on huge pages."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from hugealign import __version__
from hugealign.errors import HugealignError, UsageError
from hugealign.host import kernel, processes
from hugealign.host.processes import Process
from hugealign.host.smaps import coverage
from hugealign.host.verdict import Verdict, judge, why_none
from hugealign.units import format_size, parse_page_size, printable

SCHEMA = "hugealign.ps/1"

_EPILOG = """\
With -- CMD, CMD is started, looked at every 20 ms until it ends, and shown as
it was the last time; only CMD itself, not what it starts.

exit status: 0 all windows huge (or the coverage asked for); 1 fewer, or none
possible; 2 wrong usage; 3 could not look.
"""


class _Parser(argparse.ArgumentParser):
    """Keeps the words after ``--`` apart: they are a command with options of its own."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = list(args)
        end = words.index("--") if "--" in words else len(words)
        namespace, rest = super().parse_known_args(words[:end], namespace)
        namespace.command_line = words[end + 1 :] if end < len(words) else None
        return namespace, rest


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``ps`` to *parser*."""
    parser.__class__ = _Parser  # the caller has made it already
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = "hugealign ps [OPTION]... PID|NAME...\n       hugealign ps [OPTION]... -- CMD [ARG]..."
    parser.epilog = _EPILOG
    parser.add_argument("targets", nargs="*", metavar="PID|NAME", help="a process, or all that run a program")
    parser.add_argument("--libs", action="store_true", help="show shared libraries as well")
    parser.add_argument("--all", action="store_true", help="show anonymous code (JIT, remapped text) as well")
    parser.add_argument(
        "--min-coverage",
        metavar="PCT",
        type=percentage,
        help="ask for PCT per cent of the bytes, not for all windows",
    )
    parser.add_argument("--page-size", metavar="SIZE", help="window size (default: the kernel's huge page)")
    parser.add_argument("--after", metavar="SECONDS", type=seconds, help="look at CMD once, then, and end it")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json: schema " + SCHEMA)


def run(args: argparse.Namespace) -> int:
    """Look at the processes that *args* names, print what they show and return the exit status."""
    if bool(args.targets) == bool(args.command_line):
        raise UsageError("ps: give either processes or -- and a command")
    if args.after is not None and not args.command_line:
        raise UsageError("ps: --after is for -- and a command")
    page_size = kernel.huge_page_size()
    if args.page_size:
        page_size = parse_page_size(args.page_size, "--page-size")
    errors: list[tuple[str, str]] = []
    if args.command_line:
        from hugealign.host.sampling import sample

        seen = [sample(args.command_line, args.after)]
    else:
        seen, errors = _look(args.targets)
    verdicts = [judge(p, p.text(args.libs or args.all, args.all), page_size, args.min_coverage) for p in seen]
    if args.format == "json":
        print(json.dumps(document(verdicts, errors, page_size), indent=1))
    else:
        if verdicts:
            print("\n".join([*table(verdicts, page_size), *(v.line for v in verdicts)]))
        for _, message in errors:
            print(f"hugealign: error: {message}", file=sys.stderr)
    if not all(v.met for v in verdicts):
        return 1
    return 3 if errors else 0


def table(verdicts: Sequence[Verdict], page_size: int) -> list[str]:
    """Return the lines of the table: one for each mapping."""
    rows = [("PID", "MAPPING", "TEXT", "WINDOWS", "COVERED", "HOW")]
    for verdict in verdicts:
        for m in verdict.mappings:
            possible = m.windows_possible(page_size)
            name = m.path if verdict.process.is_program(m) else m.path.rpartition("/")[2]
            covered = f"{coverage(m.huge, m.size):.1f}%" if possible or m.huge else "--"
            windows = f"{m.windows_huge(page_size)}/{possible}"
            how = m.how or ("small pages" if possible else why_none(m, page_size))
            name = printable(name) or "(anonymous)"
            rows.append((str(verdict.process.pid), name, format_size(m.size), windows, covered, how))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        cells[1], cells[5] = row[1].ljust(widths[1]), row[5]
        lines.append("  ".join(cells))
    return lines


def document(verdicts: Sequence[Verdict], errors: Sequence[tuple[str, str]], page_size: int) -> dict[str, Any]:
    """Return the JSON document ``hugealign.ps/1``; all sizes and addresses are integers, in bytes.

    ``processes``: ``pid``, ``name``, ``program``, ``deleted`` (its file is gone), ``thp_disabled``, ``met``,
    ``text_bytes``, ``huge_bytes``, ``windows_huge``, ``windows_possible``, ``reason`` and ``mend``
    (or null), ``mappings``: ``path``, ``start``, ``end``, ``offset``, ``text_bytes``, ``huge_bytes``,
    ``small_bytes`` (present in small pages), ``windows_huge``, ``windows_possible``, ``how`` (or null).
    ``errors``: ``target``, ``message``.  Names are escaped as in the text output.
    """
    return {
        "schema": SCHEMA,
        "tool": {"version": __version__},
        "page_size": page_size,
        "processes": [
            {
                "pid": v.process.pid,
                "name": printable(v.process.comm),
                "program": printable(v.process.exe),
                "deleted": any(m.deleted for m in v.mappings),
                "thp_disabled": v.process.thp_disabled,
                "met": v.met,
                "text_bytes": v.text,
                "huge_bytes": v.huge,
                "windows_huge": v.windows,
                "windows_possible": v.possible,
                "reason": v.reason or None,
                "mend": v.mend or None,
                "mappings": [
                    {
                        "path": printable(m.path),
                        "start": m.start,
                        "end": m.end,
                        "offset": m.offset,
                        "text_bytes": m.size,
                        "huge_bytes": m.huge,
                        "small_bytes": m.small,
                        "windows_huge": m.windows_huge(page_size),
                        "windows_possible": m.windows_possible(page_size),
                        "how": m.how or None,
                    }
                    for m in v.mappings
                ],
            }
            for v in verdicts
        ],
        "errors": [{"target": printable(target), "message": message} for target, message in errors],
    }


def _look(targets: Sequence[str]) -> tuple[list[Process], list[tuple[str, str]]]:
    seen: dict[int, Process] = {}
    errors = []
    for target in targets:
        try:
            found = processes.find(target)
        except HugealignError as error:
            errors.append((target, str(error)))
            continue
        for pid in found:
            try:
                seen[pid] = processes.look(pid)
            except HugealignError as error:
                errors.append((target, str(error)))
    return list(seen.values()), errors


def percentage(text: str) -> float:
    """Return the number in ``95`` or ``95%``; raises ValueError.  argparse shows the name of this function."""
    number = float(text.removesuffix("%"))
    if not 0 <= number <= 100:
        raise ValueError
    return number


def seconds(text: str) -> float:
    """Return the number in ``0.5``; raises ValueError.  argparse shows the name of this function."""
    number = float(text)
    if not 0 <= number <= 1e6:
        raise ValueError
    return number
