"""The command ``hugealign advise``: would a command or a process gain from huge text."""

import argparse
import os
import shutil

from hugealign.cli import launching, output
from hugealign.cli.arguments import TARGET, SplitParser, add_json, add_output, count, interval
from hugealign.diagnosis import documents
from hugealign.errors import STATUSES, HugealignError, UsageError
from hugealign.io.progress import Progress
from hugealign.watch import advise_report as report
from hugealign.watch.advise import FREQUENCY, SECONDS, Advice, AdviseOptions, Launched, advise, advise_process
from hugealign.watch.advise_verdict import Answer

PARSER = SplitParser
USAGE = f"hugealign advise [OPTION]... {TARGET}\n       hugealign advise [OPTION]... -- CMD [ARG]..."
EPILOG = """\
advise samples CMD and all that it starts until CMD ends, or a running process
for --seconds. The answer is per cent of its processor time: the page faults of
text, which a command has at each start and all of which are counted, and what
runs on more pages than cost nothing, which counters tell or samples bound. The
costs of this machine are measured first, once in each boot (hugealign doctor).
  yes         at least 1 % is saved
  no          less than 1 % is saved; nothing is recommended
  measure it  samples cannot tell; hugealign measure can

CMD also writes to standard output; use -o FILE to keep the answer apart.

examples:
  hugealign advise mariadbd
  hugealign advise -v -- php bench.php
  hugealign advise --cpu skylake -- ./server --benchmark    for another processor
  hugealign advise --json -o answer.json -- ./server --benchmark
"""
STATUS = {
    0: "it would gain, or has to be measured",
    1: "it would not gain, or its text is huge already",
    3: "too few samples for an answer",
    126: STATUSES[126],
    127: STATUSES[127],
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``advise`` to *parser*."""
    add = parser.add_argument
    add("target", nargs="?", metavar=TARGET, help="a process; if several match, the one with the most processor time")
    unless = f"(default: {SECONDS:.0f}; with CMD: until it ends)"
    add("--seconds", metavar="SECONDS", type=interval, help=f"sample for SECONDS {unless}")
    add("--frequency", metavar="HZ", type=count, default=FREQUENCY, help="samples per second (default: %(default)s)")
    add("--cpu", metavar="NAME", help="estimate for this processor (default: this machine's)")
    add("-v", "--verbose", action="store_true", help="show the measurements behind the answer")
    add_json(add, f"schema {Advice.SCHEMA}")
    add_output(add)


def run(args: argparse.Namespace) -> int:
    """Advise about the command or process in *args* and return the exit status."""
    if bool(args.target) == bool(args.after):
        raise UsageError("advise: give either a process or -- and a command")
    options = AdviseOptions(args.seconds or SECONDS, args.frequency, args.cpu, args.seconds)
    if args.after:
        output.keep_apart({"-o": args.output}, [shutil.which(args.after[0])])
        launched, words = _launched(args.after)
        advice = advise(words, options, launched)
    else:
        with Progress("hugealign: advise") as progress:
            progress.at_once(f"sampling for {options.seconds:g} s")
            advice = advise_process(args.target, options)
    if args.json:
        output.write(documents.text(advice), args.output, utf8=True)
    else:
        output.write_report("".join(f"{line}\n" for line in report.lines(advice, verbose=args.verbose)), args.output)
    if advice.judged.answer == Answer.UNKNOWN:
        return HugealignError.exit_status
    return 0 if advice.judged.answer in (Answer.YES, Answer.MAYBE) else 1


def _launched(words: list[str]) -> tuple[Launched | None, list[str]]:
    """Return `hugealign run` and its options if *words* begin with them, and the command behind them.

    No sample then includes the work of `hugealign run`, which precedes the command.
    """
    if os.path.basename(words[0]) != "hugealign" or words[1:2] != ["run"]:
        return None, words
    parser = argparse.ArgumentParser(prog="hugealign run")
    launching.configure(parser)
    given = parser.parse_args(words[2:])
    command = launching.command_words(given.words, "hugealign advise -- hugealign run -- ./server")
    options = words[2 : len(words) - len(command)]
    if options[-1:] == ["--"]:
        options.pop()
    made = Launched(tuple(options), given.fix, tuple(given.file), lambda: launching.prepared(command[0], given))
    return made, command
