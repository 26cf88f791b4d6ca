"""All of the example: two releases of a server, their hosts merged by Spark, the order, the misses; how it grows.

``python -m examples.fleet [--hosts N]``, as run.sh starts it, with the Python that has PySpark.
"""

import argparse
import dataclasses
import datetime as dt
import sys
import textwrap
from pathlib import Path

from examples.fleet.measure import Row, cluster, measured
from examples.fleet.releases import LINKED, Releases, releases
from examples.servers import report
from examples.servers.__main__ import open_directory, ordinary_user
from examples.servers.document import fenced, fill, table
from examples.servers.server import Example, read
from examples.servers.steps import ROOT, Failed, Steps
from examples.servers.text import perf_rights
from examples.servers.tracing import misses
from hugealign.errors import HugealignError
from hugealign.io import replacing
from hugealign.profile import counts
from lab.bench.fleet import Function, seen


def main() -> int:
    """Do all steps, write the report; return the exit status."""
    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__, allow_abbrev=False)
    parser.add_argument("--hosts", type=int, default=10_000, help="of the largest fleet (default: %(default)s)")
    where = "where everything is built (default: build/fleet in the repository)"
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build" / "fleet", metavar="DIR", help=where)
    parser.add_argument("--clean", action="store_true", help="build the server anew")
    args = parser.parse_args()
    work = args.build_dir.absolute()
    steps = Steps(work / "server", ordinary_user())
    try:
        perf_rights()
        open_directory(steps, clean=args.clean, fallback=Path("/var/tmp/hugealign-fleet"))  # noqa: S108
        result = releases(steps, lambda hosts: _merged(steps, hosts, work / "spark"))
        functions = seen(counts.parse(result.compiler.read_bytes()))
        numbers = sorted({max(1, args.hosts // part) for part in (100, 10, 1)})
        rows = [_row(steps, work / "growth", number, functions) for number in numbers]
    except (Failed, HugealignError) as failed:
        print(f"run.sh: {failed}", file=sys.stderr)
        return getattr(failed, "status", 1)
    text = document(steps, result, rows, len(functions))
    target = work / "report" / "fleet.md"
    target.parent.mkdir(exist_ok=True)
    replacing.write(str(target), text.encode())
    print(text)
    steps.say(f"the report: {target}")
    return 1 if steps.broken else 0


def _row(steps: Steps, work: Path, number: int, functions: list[Function]) -> Row:
    """Measure so many hosts, unless that was done; promise the same bytes, also with a killed worker."""
    name = f"growth-{number}"
    row = Row(**steps.step(name, f"{number} hosts", lambda: dataclasses.asdict(measured(work, number, functions))))
    steps.promise(row.same, f"Spark's counts of {number} hosts are not those of one machine")
    steps.promise(row.rough is None or row.killed, f"no worker was killed, of {number} hosts")
    return row


def _merged(steps: Steps, hosts: Path, out: Path) -> bytes:
    """Return the sum of *hosts* as the cluster makes it; promise that it is what one machine makes."""
    steps.say("the hosts' counts, merged by Spark")
    cluster(hosts, out)
    result = (out / "all.counts").read_bytes()
    item = steps.directory("counts") / "one"
    steps.output(["hugealign", "profile", "merge", *sorted(hosts.iterdir()), "-o", item])
    steps.promise(item.read_bytes() == result, "Spark's counts of the real hosts are not those of one machine")
    return result


# ---- the report ------------------------------------------------------------------------------------------------------


def document(steps: Steps, found: Releases, rows: list[Row], functions: int) -> str:
    """Return the report."""
    cpus = read("postgres").trace["cpus"]
    machine = report.machine(Example(read("postgres"), steps, 2, 2))
    fields = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "kept": "" if steps.broken else "Every promise was kept.",
        "machine": table(["machine", ""], list(machine.items())),
        "new": found.versions[0],
        "old": found.versions[1],
        "hosts": len(list(found.hosts.iterdir())),
        "functions": f"{functions:,}",
        "said": fenced(found.said),
        "orders": _orders(found, cpus, 1),
        "small": _orders(found, cpus, 0),
        "linked": _linked(found, cpus),
        "shown": _shown(found, cpus),
        "growth": _growth(rows),
        "paper": _paper(rows[-1]),
    }
    return fill(Path(__file__).with_name("report.md").read_text(encoding="utf-8"), fields, steps.broken)


def _shown(found: Releases, cpus: list[str]) -> str:
    """Return what the page shows: the misses with one huge window, under the linker's order and that of all hosts."""
    replay, layout = found.traced.repeated[0], found.traced.layouts[LINKED]
    before, after = ([misses(replay, each, cpu, 1) for cpu in cpus] for each in ("original", layout))
    words = (
        f"With one huge window, the order of all hosts leaves the newer release {min(after):,} to {max(after):,} "
        f"first-level misses; the linker's order leaves {min(before):,} to {max(before):,}."
    )
    return textwrap.fill(words, 120)


def _orders(found: Releases, cpus: list[str], windows: int) -> str:
    """Return the misses under each order, with so many windows huge."""
    replay = found.traced.repeated[0]
    rows: list[list[object]] = [
        ["none: the linker's", None, *(misses(replay, "original", cpu, windows) for cpu in cpus)]
    ]
    for name, order in found.orders.items():
        layout = found.traced.layouts[name]
        share = f"{100 * order.found / max(1, order.total):.1f} %"
        rows.append([order.of, share, *(misses(replay, layout, cpu, windows) for cpu in cpus)])
    return table(["order of", "samples found", *cpus], rows)


def _linked(found: Releases, cpus: list[str]) -> str:
    """Return the misses of the server that was linked in the order of the fleet."""
    rows = [
        [
            cpu,
            misses(found.traced.repeated[0], "original", cpu, 1),
            misses(found.traced.repeated[0], found.traced.layouts[LINKED], cpu, 1),
            misses(found.traced.linked[LINKED], "original", cpu, 1),
        ]
        for cpu in cpus
    ]
    return table(["processor", "the linker's order", "predicted", "linked and traced again"], rows)


def _growth(rows: list[Row]) -> str:
    cells = [
        [
            row.hosts,
            f"{row.size / 1e6:.1f}",
            f"{row.one:.1f}",
            row.one_memory,
            f"{row.calm:.0f}",
            row.calm_memory,
            f"{row.rough:.0f}" if row.rough else None,
            "yes" if row.same else "NO",
            f"{row.load:.1f}",
        ]
        for row in rows
    ]
    columns = ["hosts", "MB", "one machine, s", "MiB", "two workers, s", "MiB of all", "one killed, s", "same", "load"]
    return table(columns, cells)


def _paper(row: Row) -> str:
    """Return what a million hosts take at the rate of the largest fleet."""
    one, two, size = (1e6 * figure / row.hosts for figure in (row.one, row.calm, row.size))
    words = (
        f"Each host of the largest fleet took one machine {one / 1000:.2f} ms, and the two workers {two / 1000:.2f} "
        f"ms, their start included. On paper, at that rate, a million hosts, {size / 1e9:,.0f} GB, take one machine "
        f"{one / 3600:.1f} hours if the disk keeps up, and n workers {2 * two / 3600:.1f} / n hours. Memory grows with "
        "the number of distinct counts, not with the number of hosts."
    )
    return textwrap.fill(words, 120)


if __name__ == "__main__":
    sys.exit(main())
