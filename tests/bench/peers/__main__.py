"""``python -m tests.bench.peers [--program NAME]... [--write docs/results/peers.md]``.

The figures of each program are kept under ``build/bench/peers``, so that another run measures one program and writes
the tables of all.  Misses are the same on every machine of the same packages; times are not.
"""

import argparse
import json
from pathlib import Path

from tests.bench.peers import measure, report
from tests.bench.peers.program import WORK
from tests.bench.peers.programs import PROGRAMS


def main() -> None:
    """Measure, and print or write the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    parser.add_argument("--program", action="append", choices=PROGRAMS, help="measure this one; default: all")
    parser.add_argument("--no-bolt", action="store_true", help="leave out BOLT, which takes the longest")
    parser.add_argument("--no-times", action="store_true", help="leave out what is timed")
    parser.add_argument("--only-report", action="store_true", help="measure nothing: the tables of the kept figures")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the tables there instead of printing them")
    args = parser.parse_args()
    for name in [] if args.only_report else args.program or list(PROGRAMS):
        for document in measure.measure(PROGRAMS[name](), not args.no_bolt, not args.no_times):
            beside = WORK / f"{name}.json.new"
            beside.write_text(json.dumps(document, indent=1) + "\n")
            beside.replace(WORK / f"{name}.json")
    kept = [WORK / f"{name}.json" for name in PROGRAMS]
    text = report.report([json.loads(path.read_text()) for path in kept if path.exists()], measure.machine())
    if args.write:
        args.write.parent.mkdir(parents=True, exist_ok=True)
        args.write.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
