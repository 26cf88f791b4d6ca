"""``python -m lab.bench.peers [--program NAME]... [--write docs/measured]``.

The figures of each program are kept under ``build/bench/peers``, and each has a page of its own.  Misses are the same
on every machine of the same packages; times are not.
"""

import argparse
import json
from pathlib import Path

from lab.bench.peers import measure, report, summary
from lab.bench.peers.program import WORK
from lab.bench.peers.programs import PROGRAMS


def main() -> None:
    """Measure, and print or write the tables."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.peers", description=__doc__)
    parser.add_argument("--program", action="append", choices=PROGRAMS, help="measure this one; default: all")
    parser.add_argument("--no-bolt", action="store_true", help="leave out BOLT, which takes the longest")
    parser.add_argument("--no-times", action="store_true", help="leave out what is timed")
    parser.add_argument("--only-times", action="store_true", help="time anew what was built before, and keep the rest")
    parser.add_argument("--only-report", action="store_true", help="measure nothing: the tables of the kept figures")
    parser.add_argument("--summary", action="store_true", help="measure nothing: the ranges of the kept figures")
    parser.add_argument("--write", type=Path, metavar="DIR", help="write the pages there instead of printing them")
    args = parser.parse_args()
    for name in [] if args.only_report or args.summary else args.program or list(PROGRAMS):
        if args.only_times:
            documents = measure.times(PROGRAMS[name](), json.loads((WORK / f"{name}.json").read_text()))
        else:
            documents = measure.measure(PROGRAMS[name](), not args.no_bolt, not args.no_times)
        for document in documents:
            beside = WORK / f"{name}.json.new"
            beside.write_text(json.dumps(document, indent=1) + "\n")
            beside.replace(WORK / f"{name}.json")
    kept = {name: WORK / f"{name}.json" for name in args.program or PROGRAMS}
    if args.summary:
        for path in kept.values():
            if path.exists():
                print("\n".join(summary.lines(json.loads(path.read_text()))))
        return
    machine = measure.machine()
    pages = {name: report.page(json.loads(path.read_text()), machine) for name, path in kept.items() if path.exists()}
    if not args.write:
        print("\n".join(pages.values()))
        return
    (args.write / "peers").mkdir(parents=True, exist_ok=True)
    (args.write / "peers.md").write_text(report.head(), encoding="utf-8")
    for name, text in pages.items():
        (args.write / "peers" / f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
