"""The reference runs of the examples: kept, read again, and held against another run's counts."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from examples.servers import reference
from examples.servers.steps import Steps

PACKAGES = {"libc6": "2.36-9", "qemu-user": "7.2"}
ORDER = b"# hugealign.order/1\n# windows: 1\nmain\tsamples=3\n"


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    """A run in a directory of its own."""
    tmp_path.chmod(0o755)
    user = "nobody" if os.geteuid() == 0 else subprocess.check_output(["id", "-un"], text=True).strip()
    return Steps(tmp_path, user)


def simulated(misses: int, orders: list[Path]) -> dict[str, Any]:
    """What simulate says of the linker's order, of *orders*, and of a layout that nobody asks for here."""
    layouts = ["original", *(f"order:{path}" for path in orders), "all-4k"]
    rows = [
        {"layout": layout, "cpu": "skylake", "windows": windows, "misses": misses - at - windows, "walks": 1}
        for at, layout in enumerate(layouts)
        for windows in range(3)
    ]
    return {"rows": rows}


def kept(steps: Steps) -> Any:
    """A reference run whose order is ``ordered``, read again."""
    order = steps.build / "mine.order"
    order.write_bytes(ORDER)
    assert reference.check(steps, None, simulated(100, [order]), {"ordered": order}, PACKAGES) is None
    return reference.read(steps.build / "reference", steps.build)


def test_what_is_kept_comes_back(steps: Steps) -> None:
    assert reference.read(steps.build / "nothing", steps.build) is None
    found = kept(steps)
    assert found.packages == PACKAGES
    assert found.orders == {"ordered": steps.build / "reference-ordered.order"}
    assert found.orders["ordered"].read_bytes() == ORDER
    assert found.counts["misses original skylake 1"] == 99
    assert found.counts["misses ordered skylake 2"] == 97
    assert len(found.counts) == 2 * 2 * 3
    assert all(
        path.read_bytes()[4:8] == bytes(4) for path in (steps.build / "reference").glob("*.gz")
    )  # RFC 1952: no time
    before = {path.name: path.read_bytes() for path in (steps.build / "reference").iterdir()}
    kept(steps)
    assert before == {path.name: path.read_bytes() for path in (steps.build / "reference").iterdir()}


def test_the_same_counts_keep_the_promise(steps: Steps) -> None:
    """The run's own order has another name and place, and is no part of it."""
    found, own = kept(steps), steps.build / "mine.order"
    here = simulated(100, [found.orders["ordered"], own])
    told = reference.check(steps, found, here, {"ordered": own}, {})
    assert told
    assert told[1] == "all 12 counts are those of the reference run, to the digit"
    assert told[0] == found.counts
    assert steps.broken == []


def test_one_other_count_breaks_it(steps: Steps) -> None:
    found, own = kept(steps), steps.build / "mine.order"
    here = simulated(100, [found.orders["ordered"]])
    here["rows"][4]["walks"] += 1
    told = reference.check(steps, found, here, {"ordered": own}, PACKAGES)
    assert told
    assert told[1].endswith("1 of 12 counts differ from those of the reference run, the first: walks ordered skylake 1")
    assert steps.broken == [f"reference run: {told[1]}"]


def test_counts_of_other_packages_are_told_without_blame(steps: Steps) -> None:
    found, own = kept(steps), steps.build / "mine.order"
    here = simulated(90, [found.orders["ordered"]])
    told = reference.check(steps, found, here, {"ordered": own}, {"libc6": "2.37", "qemu-user": "7.2"})
    assert told
    assert "6 of 12 counts differ" in told[1]
    assert told[1].endswith("; other packages: libc6 2.36-9 there, 2.37 here")
    assert steps.broken == []


def test_a_layout_that_is_missing_is_a_difference(steps: Steps) -> None:
    found, own = kept(steps), steps.build / "mine.order"
    told = reference.check(steps, found, simulated(100, []), {"ordered": own}, PACKAGES)
    assert told
    assert "6 of 12 counts differ" in told[1]
    assert len(steps.broken) == 1


def test_the_table_has_a_row_for_each_layout_and_processor() -> None:
    counts = {f"misses {layout} {cpu} {n}": n + 7 for layout in ("original", "o") for cpu in "ab" for n in (0, 9)}
    counts |= {"walks o c 3": 3, "misses o c 2": 1}
    assert reference.shown(counts).splitlines() == [
        "| layout | processor | 0 | 2 | 9 |",
        "|---|---|--:|--:|--:|",
        "| original | a | 7 | -- | 16 |",
        "| original | b | 7 | -- | 16 |",
        "| o | a | 7 | -- | 16 |",
        "| o | b | 7 | -- | 16 |",
        "| o | c | -- | 1 | -- |",
    ]
