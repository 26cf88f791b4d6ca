"""The reference runs of the examples: kept, read again, and held against another run's counts."""

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
PACKAGES = {"libc6": "2.36-9", "qemu-user": "7.2"}
ORDER = b"# hugealign.order/1\n# windows: 1\nmain\tsamples=3\n"


@pytest.fixture(scope="module")
def reference() -> Iterator[ModuleType]:
    """The module, which lies where only the examples look."""
    before = list(sys.path)
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield importlib.import_module("reference")
    finally:
        sys.path[:] = before


@pytest.fixture
def steps(reference: ModuleType, tmp_path: Path) -> Any:
    """A run in a directory of its own."""
    tmp_path.chmod(0o755)
    user = "nobody" if os.geteuid() == 0 else subprocess.check_output(["id", "-un"], text=True).strip()
    return reference.Steps(tmp_path, user, time.time())


def simulated(misses: int, orders: list[Path]) -> dict[str, Any]:
    """What simulate says of the linker's order, of *orders*, and of a layout that nobody asks for here."""
    layouts = ["original", *(f"order:{path}" for path in orders), "all-4k"]
    rows = [
        {"layout": layout, "cpu": "skylake", "windows": windows, "misses": misses - at - windows, "walks": 1}
        for at, layout in enumerate(layouts)
        for windows in range(3)
    ]
    return {"rows": rows}


def kept(reference: ModuleType, steps: Any) -> Any:
    """A reference run whose order is ``ordered``, read again."""
    order = steps.build / "mine.order"
    order.write_bytes(ORDER)
    assert reference.check(steps, None, simulated(100, [order]), {"ordered": order}, PACKAGES) is None
    return reference.read(steps.build / "reference", steps.build)


def test_what_is_kept_comes_back(reference: ModuleType, steps: Any) -> None:
    assert reference.read(steps.build / "nothing", steps.build) is None
    found = kept(reference, steps)
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
    kept(reference, steps)
    assert before == {path.name: path.read_bytes() for path in (steps.build / "reference").iterdir()}


def test_the_same_counts_keep_the_promise(reference: ModuleType, steps: Any) -> None:
    """The run's own order has another name and place, and is no part of it."""
    found, own = kept(reference, steps), steps.build / "mine.order"
    here = simulated(100, [found.orders["ordered"], own])
    told = reference.check(steps, found, here, {"ordered": own}, {})
    assert told["words"] == "all 12 counts are those of the reference run, to the digit"
    assert told["counts"] == found.counts
    assert steps.broken == []


def test_one_other_count_breaks_it(reference: ModuleType, steps: Any) -> None:
    found, own = kept(reference, steps), steps.build / "mine.order"
    here = simulated(100, [found.orders["ordered"]])
    here["rows"][4]["walks"] += 1
    told = reference.check(steps, found, here, {"ordered": own}, PACKAGES)
    assert told["words"].endswith(
        "1 of 12 counts differ from those of the reference run, the first: walks ordered skylake 1"
    )
    assert steps.broken == [f"reference run: {told['words']}"]


def test_counts_of_other_packages_are_told_without_blame(reference: ModuleType, steps: Any) -> None:
    found, own = kept(reference, steps), steps.build / "mine.order"
    here = simulated(90, [found.orders["ordered"]])
    told = reference.check(steps, found, here, {"ordered": own}, {"libc6": "2.37", "qemu-user": "7.2"})
    assert "6 of 12 counts differ" in told["words"]
    assert told["words"].endswith("; other packages: libc6 2.36-9 there, 2.37 here")
    assert steps.broken == []


def test_a_layout_that_is_missing_is_a_difference(reference: ModuleType, steps: Any) -> None:
    found, own = kept(reference, steps), steps.build / "mine.order"
    told = reference.check(steps, found, simulated(100, []), {"ordered": own}, PACKAGES)
    assert "6 of 12 counts differ" in told["words"]
    assert len(steps.broken) == 1


def test_versions(reference: ModuleType, steps: Any) -> None:
    """A package that is not there has none, which is no error."""
    found = reference.versions(steps, ["dpkg", "no-such-package-here"])
    assert list(found) == ["dpkg"]
    assert found["dpkg"][0].isdigit()


def test_the_section_has_a_row_for_each_layout_and_processor(reference: ModuleType) -> None:
    counts = {f"misses {layout} {cpu} {n}": n + 7 for layout in ("original", "o") for cpu in "ab" for n in (0, 9)}
    counts |= {"walks o c 3": 3, "misses o c 2": 1}
    found = reference.section("as they were", counts, "there")
    assert "kept in there, and replayed here on this run's own trace: as they were." in found["text"]
    assert found["table"]["columns"] == ["layout", "processor", "0", "2", "9"]
    assert found["table"]["rows"] == [
        ["original", "a", 7, None, 16],
        ["original", "b", 7, None, 16],
        ["o", "a", 7, None, 16],
        ["o", "b", 7, None, 16],
        ["o", "c", None, 1, None],
    ]
