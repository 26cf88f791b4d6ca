"""The command ``hugealign ps``: is the text of running processes on huge pages."""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from hugealign.cli.arguments import split_at_dashes
from hugealign.errors import HugealignError, UsageError
from hugealign.machine import kernel
from hugealign.process import processes
from hugealign.process.processes import Process
from hugealign.ps import backing, report
from hugealign.ps.verdict import Verdict, judge, missing
from hugealign.units import parse_page_size

_EPILOG = """\
With -- CMD, CMD is started, looked at every 20 ms until it ends, and shown as
it was the last time; only CMD itself, not what it starts.

exit status: 0 all windows huge (or the coverage asked for; of a program that
was linked in the order of a profile, the windows it asks for); 1 fewer, or
none possible; 2 wrong usage; 3 could not look.
"""
_PAUSE = 0.1  # seconds between the looks of --wait
_HOME, _END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"  # move to; clear to the end of; clear what is (ECMA-48)

Errors = list[tuple[str, str]]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``ps`` to *parser*."""
    split_at_dashes(parser)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = "hugealign ps [OPTION]... PID|NAME...\n       hugealign ps [OPTION]... -- CMD [ARG]..."
    parser.epilog = _EPILOG
    parser.add_argument("targets", nargs="*", metavar="PID|NAME", help="a process, or all that run a program")
    parser.add_argument("-v", "--windows", action="store_true", help="show each window, and why it is not huge")
    parser.add_argument("--libs", action="store_true", help="show shared libraries as well")
    parser.add_argument("--all", action="store_true", help="show anonymous code (JIT, remapped text) as well")
    parser.add_argument(
        "--min-coverage",
        metavar="PCT",
        type=percentage,
        help="ask for PCT per cent of the bytes, not for all windows",
    )
    parser.add_argument("--page-size", metavar="SIZE", help="window size (default: the kernel's huge page)")
    times = parser.add_mutually_exclusive_group()
    times.add_argument(
        "--after", dest="delay", metavar="SECONDS", type=seconds, help="look at CMD once, then, and end it"
    )
    times.add_argument(
        "--wait", metavar="SECONDS", type=seconds, help="look again until it is as asked for, so long at most; end CMD"
    )
    times.add_argument("--watch", metavar="SECONDS", type=interval, help="look again every SECONDS until they end")
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help=f"json: schema {report.SCHEMA}; a line each --watch"
    )


def run(args: argparse.Namespace) -> int:
    """Look at the processes that *args* names, print what they show and return the exit status."""
    if bool(args.targets) == bool(args.after):
        raise UsageError("ps: give either processes or -- and a command")
    if args.delay is not None and not args.after:
        raise UsageError("ps: --after is for -- and a command")
    args.page_bytes = kernel.huge_page_size()
    if args.page_size:
        args.page_bytes = parse_page_size(args.page_size, "--page-size")
    if args.watch is not None:
        return _watch(args)
    seen, errors = _of_command(args) if args.after else _of_targets(args)
    return _show(args, _verdicts(args, seen), errors)


def _of_command(args: argparse.Namespace) -> tuple[list[Process], Errors]:
    from hugealign.process.sampling import sample

    def enough(process: Process) -> bool:
        return _judge(args, process).met

    limit = args.delay if args.wait is None else args.wait
    return [sample(args.after, limit, enough if args.wait is not None else None, _looking(args))], []


def _of_targets(args: argparse.Namespace) -> tuple[list[Process], Errors]:
    end = time.monotonic() + (args.wait or 0)
    while True:
        seen, errors, coming = _look(args)
        left = end - time.monotonic()
        met = not errors and all(_judge(args, process).met for process in seen)
        # Time mends windows, and names that no process has yet; nothing else.
        if met or left <= 0 or (errors and not coming):
            return seen, errors
        time.sleep(min(_PAUSE, left))


def _watch(args: argparse.Namespace) -> int:
    status, first = 3, True
    for seen, errors in _looks(args):
        status = _show(args, _verdicts(args, seen), errors, "first" if first else "again")
        first = False
    return status


def _looks(args: argparse.Namespace) -> Iterator[tuple[list[Process], Errors]]:
    """Yield what there is to see every ``args.watch`` seconds until there is nothing more; at least once."""
    if args.after:
        from hugealign.process.sampling import follow

        for process in follow(args.after, args.watch, _looking(args)):
            yield [process], []
        return
    known: dict[int, int] = {}
    seen, errors, _ = _look(args)
    yield seen, errors
    while seen:
        known |= {process.pid: process.started for process in seen}
        time.sleep(args.watch)
        found, _, _ = _look(args)
        # A PID that was given means the process that had it first.
        seen = [p for p in found if known.get(p.pid, p.started) == p.started or str(p.pid) not in args.targets]
        if seen:
            yield seen, []


def _show(args: argparse.Namespace, verdicts: Sequence[Verdict], errors: Errors, watching: str = "") -> int:
    """Print *verdicts* and *errors* and return the exit status; *watching*: empty, ``first`` or ``again``."""
    if args.format == "json":
        print(json.dumps(report.document(verdicts, errors, args.page_bytes), indent=None if watching else 1))
    elif verdicts:
        lines = report.table(verdicts, args.page_bytes)
        for verdict in verdicts:
            lines += verdict.line.splitlines()
            if args.windows:
                lines += report.details(verdict, args.page_bytes)
        if watching and sys.stdout.isatty():
            print(_HOME + "".join(f"{line}{_END_OF_LINE}\n" for line in lines) + _BELOW, end="")
        else:
            print(("\n" if watching == "again" else "") + "\n".join(lines))
    if args.format != "json":
        for _, message in errors:
            print(f"hugealign: error: {message}", file=sys.stderr)
    if watching:
        sys.stdout.flush()
    if not all(v.met for v in verdicts):
        return 1
    return 3 if errors else 0


def _verdicts(args: argparse.Namespace, seen: Sequence[Process]) -> list[Verdict]:
    return [_judge(args, process, explain=True) for process in seen]


def _judge(args: argparse.Namespace, process: Process, *, explain: bool = False) -> Verdict:
    """Judge *process*; with *explain*, look into the page cache for the reasons."""
    mappings = process.text(args.libs or args.all, args.all)
    cached: dict[int, bool] = {}
    short = [m for m in mappings if m.windows_huge(args.page_bytes) < m.windows_possible(args.page_bytes)]
    asked = backing.asked(process, mappings, args.page_bytes) if short else {}
    if explain and not process.thp_disabled:
        for mapping in mappings:
            if addresses := missing(mapping, args.page_bytes):
                cached |= backing.behind(process, mapping, addresses, args.page_bytes)
    return judge(process, mappings, args.page_bytes, args.min_coverage, cached, asked)


def _looking(args: argparse.Namespace) -> Any:
    return lambda pid: processes.look(pid, args.libs or args.all, args.all)


def _look(args: argparse.Namespace) -> tuple[list[Process], Errors, bool]:
    """Return the processes and the errors, and whether all errors are names that no process has yet."""
    seen: dict[int, Process] = {}
    errors: Errors = []
    coming = True
    for target in args.targets:
        try:
            found = processes.find(target)
        except HugealignError as error:
            errors.append((target, str(error)))
            continue
        named = [str(pid) for pid in found] != [target]
        failed: Errors = []
        for pid in found:
            try:
                seen[pid] = _looking(args)(pid)
            except processes.GoneError as error:
                # Of those of a name some may end meanwhile; all of them: then the last one says so.
                if not named or (pid == found[-1] and not failed and not seen.keys() & set(found)):
                    failed.append((target, str(error)))
            except HugealignError as error:
                failed.append((target, str(error)))
        coming &= not failed
        errors += failed
    return list(seen.values()), errors, coming


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


def interval(text: str) -> float:
    """Return the number in ``0.5``, at least 0.01; raises ValueError.  argparse shows the name of this function."""
    number = seconds(text)
    if number < 0.01:
        raise ValueError
    return number
