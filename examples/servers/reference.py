"""The reference run of an example, kept beside it: its orders, and what its trace counted under them.

Orders are made of samples, which fall differently each time.  So every run replays the reference's orders, too, on a
trace and a server of its own making, and is to count the same to the digit, on any machine with the same packages.

``reference/counts.json`` has the counts and the versions of the packages, ``reference/NAME.order.gz`` the orders.
"""

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.servers.document import table
from examples.servers.steps import Steps

Counts = dict[str, int]  # by "misses LAYOUT CPU WINDOWS" and "walks LAYOUT CPU WINDOWS"
Packages = Mapping[str, str]  # versions, by name
Orders = Mapping[str, Path]  # order files, by name

_COUNTS, _ENDING, _ORIGINAL = "counts.json", ".order.gz", "original"


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference run."""

    counts: Counts
    packages: Packages
    orders: Orders


def read(directory: Path, into: Path) -> Reference | None:
    """Return the run kept in *directory*, its orders unpacked *into* another; None if there is none."""
    if not (directory / _COUNTS).exists():
        return None
    result = json.loads((directory / _COUNTS).read_text(encoding="utf-8"))
    orders = {}
    for packed in sorted(directory.glob(f"*{_ENDING}")):
        name = packed.name.removesuffix(_ENDING)
        orders[name] = into / f"reference-{name}.order"
        orders[name].write_bytes(gzip.decompress(packed.read_bytes()))
    return Reference(result["counts"], result["packages"], orders)


def write(directory: Path, counts: Counts, packages: Packages, orders: Orders) -> None:
    """Keep a run in *directory*; the same run gives the same files."""
    directory.mkdir(exist_ok=True)
    text = json.dumps({"packages": packages, "counts": counts}, indent=1)
    (directory / _COUNTS).write_text(f"{text}\n", encoding="utf-8")
    for name, order in orders.items():
        (directory / f"{name}{_ENDING}").write_bytes(gzip.compress(order.read_bytes(), mtime=0))


def check(
    steps: Steps, reference: Reference | None, replay: Mapping[str, Any], orders: Orders, packages: Packages
) -> tuple[Counts, str] | None:
    """Promise that *replay* has the counts of *reference*; return them and words about them.

    This run, of *orders*, is kept below the build directory as one that could be the next reference.
    """
    write(steps.build / "reference", counted(replay, orders), packages, orders)
    if reference is None:
        return None
    counts = counted(replay, reference.orders)
    held, words = verdict(reference, counts, packages)
    steps.say(f"reference run: {words}")
    steps.promise(held, f"reference run: {words}")
    return counts, words


def counted(replay: Mapping[str, Any], orders: Orders) -> Counts:
    """Return what `simulate --json` counted in the linker's order and in *orders*."""
    names = {f"order:{path}": name for name, path in orders.items()} | {_ORIGINAL: _ORIGINAL}
    return {
        f"{what} {names[row['layout']]} {row['cpu']} {row['windows']}": int(row[what])
        for row in replay["rows"]
        if row["layout"] in names
        for what in ("misses", "walks")
    }


def verdict(reference: Reference, counts: Counts, packages: Packages) -> tuple[bool, str]:
    """Tell whether *counts* are as they are to be, and in words what they are.

    With other packages nothing is promised: a libc or a QEMU of another version runs other blocks.
    """
    names = reference.counts.keys() | counts.keys()
    result = sorted(name for name in names if reference.counts.get(name) != counts.get(name))
    if not result:
        return True, f"all {len(counts)} counts are those of the reference run, to the digit"
    others = [
        f"{name} {reference.packages.get(name, 'none')} there, {packages.get(name, 'none')} here"
        for name in sorted(reference.packages.keys() | packages.keys())
        if reference.packages.get(name) != packages.get(name)
    ]
    words = f"{len(result)} of {len(names)} counts differ from those of the reference run, the first: {result[0]}"
    return bool(others), f"{words}; other packages: {'; '.join(others)}" if others else words


def shown(counts: Counts) -> str:
    """Return the table of misses by the number of huge windows."""
    misses: dict[tuple[str, str], dict[int, int]] = {}
    for name, count in counts.items():
        what, layout, cpu, windows = name.split(" ")
        if what == "misses":
            misses.setdefault((layout, cpu), {})[int(windows)] = count
    columns = sorted({windows for result in misses.values() for windows in result})
    rows = [[*places, *(result.get(windows) for windows in columns)] for places, result in misses.items()]
    return table(["layout", "processor", *map(str, columns)], rows)
