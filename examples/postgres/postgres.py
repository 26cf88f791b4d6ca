"""The steps of run.sh behind the sources: builds, orders, proofs, measurements, the report.

Variants of the server, all from the same source: ``plain`` (gcc), ``hugealign`` (hugealign gcc), ``ordered`` (compiled
and linked with the order that a profile of ``hugealign`` gave), ``leading`` (the same objects, linked for a processor
with two entries: one window is to be huge).  ``older`` and ``major`` are older versions, which only give profiles.
"""

# ruff: noqa: E402 - what lies beside is found only once sys.path is set

import argparse
import contextlib
import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

import pgreport
from pgbuild import (
    BUILT,
    STALE,
    Example,
    build_all,
    build_ordered,
    build_server,
    coverage,
    huge_windows,
    regression_suite,
    same_settings,
    verify,
)
from pgmeasure import SECONDS_MEASURED, fit, live, make_order, record, server, traces
from steps import Failed, Steps, machine, perf_words


def main() -> int:
    """Do all steps; return the exit status that run.sh documents."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--user", required=True)
    parser.add_argument("--began", type=float, required=True)
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--no-stale", action="store_true")
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda got, _: sys.exit(128 + got))
    steps = Steps(args.build, args.user, args.began)
    example = Example(steps, not args.no_check, not args.no_stale)
    try:
        run(example, args.rounds)
    except Failed as failed:
        print(f"run.sh: {failed}", file=sys.stderr)
        return failed.status
    except KeyboardInterrupt:
        return 130
    if steps.broken:
        print(f"run.sh: {len(steps.broken)} promise(s) broken, see above", file=sys.stderr)
        return 1
    steps.say("every promise kept")
    return 0


def run(example: Example, rounds: int) -> None:
    """Do all steps."""
    steps = example.steps
    steps.resume()
    perf_words(steps.user)  # ends here, not after the builds, if perf may not record
    for name in ("profiles", "orders", "results"):
        steps.directory(name)
    versions = example.versions()
    build_all(example, "hugealign", "hugealign gcc")
    build_all(example, "plain", "gcc")
    same_settings(example)
    stale = [name for name in STALE if name in versions]
    for name in stale:
        build_server(example, name)
    with socket_directory(steps) as sockets:
        for variant in ("hugealign", *stale):
            record(example, variant, sockets)
        make_order(example, "hugealign", "ordered")
        make_order(example, "hugealign", "leading", "--itlb-2m", "2")
        for name in stale:
            make_order(example, name, name)
        build_ordered(example)
        for variant in ("hugealign", "ordered", "leading"):
            regression_suite(example, server(example, variant, sockets))
            verify(example, variant)
        measured = live(example, sockets, rounds)
        traced = traces(example, sockets, versions["current"])
    results = pgreport.Results(
        {variant: the_file(example, variant) for variant in BUILT},
        measured.text,
        measured.ps,
        {name: steps.log(f"{name}-order").read_text(errors="replace") for name in ("ordered", "leading")},
        measured.samples,
        {
            name: fit(example, name, versions["current" if name == "ordered" else name].partition("-")[0])
            for name in ("ordered", *stale)
        },
        traced.simulated,
        traced.linked,
        traced.layouts,
        traced.reference,
        measured.rates,
        measured.counters,
        stamps(steps),
        SECONDS_MEASURED,
    )
    steps.promise(pgreport.same(results), f"two traces of one job differ: by {pgreport.spread(results):.3f} %")
    described = {"PostgreSQL": versions["current"], "load average": f"up to {measured.load:.1f} while pgbench ran"}
    write_report(example, results, described)


def the_file(example: Example, variant: str) -> pgreport.File:
    """Return what there is to say about the server's file."""
    status = example.program(variant).stat()
    whole, text, _ = coverage(example, variant)
    wanted = 0 if variant == "plain" else huge_windows(example, variant)
    return pgreport.File(whole, text, status.st_size, status.st_blocks * 512, wanted)


def stamps(steps: Steps) -> dict[str, int]:
    """Return the seconds of the finished steps, in the order in which they were done."""
    found = sorted((steps.build / "stamps").glob("[a-z]*"), key=lambda path: path.stat().st_mtime_ns)
    return {path.name: int(path.read_text()) for path in found}


def write_report(example: Example, results: pgreport.Results, more: Mapping[str, str]) -> None:
    """Print the table of the servers, and write the report."""
    steps = example.steps
    compiler = steps.output(["gcc", "--version"]).splitlines()[0]
    linker = steps.output(["ld", "--version"]).splitlines()[0]
    described = {**machine(example.build), "compiler": compiler, "linker": linker, **more}
    document = pgreport.document(
        results, "PostgreSQL, its text on huge pages and in order", time.strftime("%Y-%m-%d"), described
    )
    # The build directory, which run.sh lets have no characters that JSON writes otherwise, is nobody's business.
    text = json.dumps(document, indent=1, ensure_ascii=False).replace(f"{example.build}/", "")
    directory = example.build / "report"
    directory.mkdir(exist_ok=True)
    (directory / "results.json").write_text(text)
    script = str(ROOT / "examples" / "report.py")
    subprocess.run(
        [sys.executable, script, str(directory / "results.json"), "-o", str(directory), "--name", "postgres"],
        check=True,
    )
    print()
    for row in pgreport.table(results):
        print(f"{row[0]:34}" + "".join(f"{cell:>19}" for cell in row[1:]))
    print(f"\nthe report: {directory}/postgres.md")


@contextlib.contextmanager
def socket_directory(steps: Steps) -> Iterator[Path]:
    """Give a directory of a short name, since a socket's path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="hugealign-postgres.", dir="/tmp") as name:
        if os.geteuid() == 0:
            os.chown(name, pwd.getpwnam(steps.user).pw_uid, -1)
        yield Path(name)


if __name__ == "__main__":
    sys.exit(main())
