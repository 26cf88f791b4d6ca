"""The judge of `make test-kernels`: a claim that is wrong in one place is found; no virtual machine is needed."""

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.kernels import results
from tests.kernels.__main__ import write
from tests.kernels.claims import faults

_WARM: dict[str, Any] = {"status": 0, "windows": 3, "windows_huge": 3, "code": None, "facts": {}}
_GOOD: list[dict[str, Any]] = [
    {"release": "6.18.15+deb13-cloud-amd64", "thp": "always", "populate_read": "yes"},
    {"zeros": "always", "zeros-plain": 2048, "zeros-aligned": 6144},
    {"zeros": "never", "zeros-plain": 0, "zeros-aligned": 0},
    {
        "fs": "xfs",
        "able": True,
        "collapse": "EINVAL",
        "staged": {"root": 6144, "user": 6144, "upgrade": 6144},
        "read_only": {
            "before_kib": 0,
            "after_kib": 6144,
            "text_kib": 6144,
            "warm": {"windows": 3, "windows_huge": 3},
            "ps": {"text": 3, "rodata": 3},
        },
        "in_use": {
            "warm": _WARM | {"status": 1, "windows_huge": 0, "code": "cache.in-use", "facts": {"process": 7}},
            "running_kib": 0,
            "next_kib": 0,
        },
    },
    {
        "fs": "xfs",
        "thp": "madvise",
        "program": "pie",
        "before_kib": 0,
        "warm": _WARM,
        "after_kib": 6144,
        "congruent": True,
        "ps": {"status": 0, "windows_huge": 3, "windows_possible": 3, "diagnoses": []},
    },
]
_UNABLE = _WARM | {"status": 1, "windows_huge": 0, "code": "file-system.no-huge-pages", "facts": {"file_system": "xfs"}}
_NONE = {"status": 1, "windows_huge": 0, "windows_possible": 3, "diagnoses": ["small"]}


def changed(number: int, **changes: Any) -> list[dict[str, Any]]:
    """The good results with *changes* to line *number*; ``warm__code`` is ``code`` in ``warm``."""
    found = copy.deepcopy(_GOOD)
    for path, value in changes.items():
        *way, last = path.split("__")
        place = found[number]
        for key in way:
            place = place[key]
        place[last] = value
    return found


def test_what_is_right_is_no_fault() -> None:
    assert faults(_GOOD) == []
    unable = changed(4, warm=_UNABLE, after_kib=0, ps=_NONE)
    unable[3]["able"] = False
    unable[3]["read_only"] = {
        "before_kib": 0,
        "after_kib": 0,
        "text_kib": 0,
        "warm": {"windows": 3, "windows_huge": 0},
        "ps": {"text": 0, "rodata": 0},
    }
    assert faults(unable) == []


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (changed(4, warm__windows=2), "warm sees 2 windows"),
        (changed(4, warm__windows_huge=2), "a probe says"),
        (changed(4, warm__status=1), "warm ends with status 1"),
        (changed(4, warm__code="cache.in-use"), "the reason cache.in-use"),
        (changed(3, able=False), "a probe says that the file system can: False"),
        (changed(4, warm=_UNABLE | {"facts": {"file_system": "ext4"}}), "another file system"),
        (changed(4, after_kib=4096), "warm promised 3 windows, the next process has 4096 KiB"),
        (changed(4, ps__windows_huge=2), "ps sees 2 huge windows, smaps 6144 KiB"),
        (changed(4, ps__windows_possible=2), "ps sees 2 windows, the file has 3"),
        (changed(4, ps__status=1), "ps ends with status 1"),
        (changed(4, congruent=False), "not aligned in memory"),
        (changed(4, congruent=False, program="static-pie"), "not aligned in memory"),
        (changed(3, staged__user=0), "staged, user: 0 KiB are huge"),
        (changed(3, staged__upgrade=4096), "staged, upgrade: 4096 KiB are huge"),
        (changed(3, read_only__warm__windows=2), "read-only data: warm sees 2 windows"),
        (changed(3, read_only__warm__windows_huge=2), "read-only data: warm makes 2 windows huge"),
        (changed(3, read_only__after_kib=4096), "read-only data: warm promised 3 windows, the next process has 4096"),
        (changed(3, read_only__ps__rodata=0), "read-only data: ps sees"),
        (changed(3, read_only__ps__text=6), "read-only data: ps sees"),
        (changed(1, **{"zeros-aligned": 4096}), "zero data, THP always: aligned, 4096 KiB are huge"),
        (changed(2, **{"zeros-aligned": 2048}), "zero data, THP never: aligned, 2048 KiB are huge"),
        (changed(2, **{"zeros-plain": 2048}), "zero data, THP never: as linked, 2048 KiB are huge"),
        (changed(3, in_use__next_kib=2048), "in use: warm promised 0 windows"),
        (
            changed(3, in_use__warm__code="file-system.no-huge-pages"),
            "in use: warm ends with status 1 and reason file-system",
        ),
        (changed(3, in_use__warm__status=0), "in use: warm ends with status 0"),
    ],
)
def test_wrong_claim_is_found(wrong: list[dict[str, Any]], fault: str) -> None:
    assert any(fault in found for found in faults(wrong)), faults(wrong)


def test_document_is_left_alone_unless_every_kernel_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "DIRECTORY", tmp_path)
    document = tmp_path / "kernels.md"
    document.write_text("old", encoding="ascii")
    for series in results.SERIES[1:]:
        results.save(series, {"series": series, "unavailable": "offline"})
    assert write(document) == 0  # one was not tried
    results.save(results.SERIES[0], {"series": results.SERIES[0], "unavailable": "offline"})
    assert write(document) == 0  # none could be had
    assert document.read_text(encoding="ascii") == "old"
    assert capsys.readouterr().err.count("stays as it is") == 2
