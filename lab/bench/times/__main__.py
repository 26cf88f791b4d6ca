"""Orders, PGO and BOLT in processor time: ``python -m lab.bench.times [--program NAME]... [--write FILE]``.

Builds are kept under ``build/bench/peers``, the figures of each program in ``times.json`` beside them.  On a machine
that does something else the figures are worth little: the load stands beside them.
"""

import argparse
import dataclasses
import datetime as dt
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

from lab.bench.peers.measure import machine
from lab.bench.peers.program import WORK
from lab.bench.placements import PLACEMENTS
from lab.bench.times.builds import Builder
from lab.bench.times.explained import explain
from lab.bench.times.programs import PROGRAMS
from lab.bench.times.timed import time_all

_BEGAN = time.monotonic()
_OURS = "hugealign"
_LEVEL = 0.99  # of the time of our build; below it, a peer is ahead
_HEAD = f"""\
# Orders, PGO and BOLT in time

Not measured yet: clang, PostgreSQL, MariaDB, Ruby.

`python -m lab.bench.times --write docs/measured/time.md` writes this page.  Processor time of the same work by builds
that learned from another run, as ratios to the plain build on small pages, with 95 % intervals over the
{len(PLACEMENTS)} placements of each build, each a copy of its own: a first function of
{", ".join(map(str, PLACEMENTS))} bytes.
All other builds run from huge pages, as far as they have windows for them.  The full profile is what BOLT's
instrumentation counts, the same for all tools; samples are perf's, of the processor's clock, without branches.
Instructions, taken branches, cache lines and pages are of one run; they explain, and prove nothing.
"""


def say(text: str) -> None:
    """Show progress."""
    print(f"{time.monotonic() - _BEGAN:7.0f} s  {text}", file=sys.stderr, flush=True)


def measured(name: str, rounds: int) -> dict[str, Any]:
    """Build, time and explain the program *name*."""
    sources = PROGRAMS[name]()
    built = list(Builder(sources, say).all())
    load = os.getloadavg()[0]
    times = time_all(built, sources.test, sources.directory, rounds, say)
    rows = []
    for build, timed in zip(built, times, strict=True):
        say(f"explain {build.title}")
        why = explain(build.files[0], sources.once, sources.directory)
        ratio = dataclasses.asdict(timed.ratio) if timed.ratio else None
        rows.append(
            {
                "title": build.title,
                "learned": build.learned,
                "seconds": timed.seconds,
                "huge": timed.huge,
                "ratio": ratio,
                "explained": dataclasses.asdict(why),
            }
        )
    day = dt.datetime.now(tz=dt.UTC).date().isoformat()
    return {"about": sources.about, "rows": rows, "rounds": rounds, "day": day, "load": load, "machine": machine()}


def _unshown(rows: list[dict[str, Any]]) -> str:
    """Return a sentence that names the builds whose interval includes 1, with what they learned from."""
    same = [row for row in rows if row["ratio"] and row["ratio"]["low"] <= 1 <= row["ratio"]["high"]]
    named = [f"*{row['title']}*{' (' + row['learned'] + ')' if row['learned'] else ''}" for row in same]
    return (
        f"no difference from the plain build is shown for {', '.join(named)}"
        if same
        else "each differs from the plain build"
    )


def _ahead(rows: list[dict[str, Any]]) -> list[str]:
    """Return how each peer that is over 1 % ahead of our best build with the same knowledge compares with that one."""
    found = []
    for known, mine in (("samples", _OURS), ("full", _OURS), ("PGO", f"PGO, {_OURS}")):
        group = [row for row in rows if row["ratio"] and known in (row["learned"], row["title"][: len(known)])]
        group = [row for row in group if row["title"].startswith("PGO") == (known == "PGO")]
        ours = [row for row in group if row["title"].startswith(mine)]
        if not ours:
            continue
        best = min(ours, key=lambda row: row["ratio"]["ratio"])
        for row in group:
            times = row["ratio"]["ratio"] / best["ratio"]["ratio"]
            if row not in ours and times < _LEVEL:
                # Two independent intervals, in logarithms.
                reach = math.hypot(*(math.log(each["ratio"]["high"] / each["ratio"]["ratio"]) for each in (row, best)))
                low, high = times * math.exp(-reach), times * math.exp(reach)
                found.append(
                    f"*{row['title']}* ({row['learned']}) takes {times:.2f} ({low:.2f} to {high:.2f}) of the time of "
                    f"*{best['title']}* ({best['learned']})"
                )
    return found or ["no peer is over 1 % ahead of ours with the same profile"]


def page(documents: dict[str, dict[str, Any]]) -> str:
    """Return the page of the figures of all programs."""
    lines = [_HEAD]
    for name, document in documents.items():
        lines += [f"{name}: {'; '.join(_ahead(document['rows']))}.\n"]
    for name, document in documents.items():
        lines += [f"{name}: {_unshown(document['rows'])}.\n"]
    for name, document in documents.items():
        when = f"{document['day']}, {document['machine']}, load {document['load']:.1f} at the start"
        lines += [
            f"## {name}\n",
            f"{document['about']}. {when}, {document['rounds']} rounds.\n",
            "| build | learned from | processor time | windows | instructions, k | taken branches, k | lines | pages |",
            "|---|---|--:|--:|--:|--:|--:|--:|",
        ]
        for row in document["rows"]:
            ratio, why = row["ratio"], row["explained"]
            text = f"{row['seconds']:.2f} s"
            if ratio:
                text = f"{ratio['ratio']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"
            lines.append(
                f"| {row['title']} | {row['learned'] or '--'} | {text} | {row['huge']} | {why['instructions']:,} | "
                f"{why['branches']:,} | {why['lines']:,} | {why['pages']:,} |"
            )
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Measure the programs, keep their figures, and print or write the page of all that are kept."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.times", description=__doc__)
    parser.add_argument("--program", action="append", choices=PROGRAMS, help="measure this one; default: all")
    parser.add_argument("--rounds", type=int, default=20, help="of all copies of all builds (default: 20)")
    parser.add_argument("--only-report", action="store_true", help="measure nothing: the page of the kept figures")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page there instead of printing it")
    args = parser.parse_args()
    for name in [] if args.only_report else args.program or list(PROGRAMS):
        document = measured(name, args.rounds)
        (WORK / name / "times.json").write_text(json.dumps(document, indent=1) + "\n")
    kept = {name: WORK / name / "times.json" for name in PROGRAMS}
    text = page({name: json.loads(path.read_text()) for name, path in kept.items() if path.exists()})
    if args.write:
        args.write.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
