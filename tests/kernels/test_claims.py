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
    {"release": "6.18.15+deb13-cloud-amd64", "window": 2 << 20, "thp": "always", "populate_read": "yes"},
    {
        "fs": "xfs",
        "able": True,
        "collapse": "EINVAL",
        "staged": {"root": 6144, "user": 6144, "upgrade": 6144},
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
    unable = changed(2, warm=_UNABLE, after_kib=0, ps=_NONE)
    unable[1] |= {"able": False, "in_use": unable[1]["in_use"] | {"warm": _UNABLE}}
    assert faults(unable) == []


def test_huge_pages_that_are_missing_have_to_be_said() -> None:
    none = {"release": "6.12.107+deb13-s390x", "window": 0, "doctor": ["machine.no-thp"], "ps": ["machine.no-thp"]}
    warm = _WARM | {"status": 1, "windows_huge": 0, "code": "machine.no-thp"}
    assert faults([none | {"warm": warm}]) == []
    for wrong in ({"warm": _UNABLE}, {"warm": warm, "ps": ["cache.small-pages"]}, {"warm": warm, "doctor": []}):
        assert len(faults([none | wrong])) == 1


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (changed(2, warm__windows=2), "warm sees 2 windows"),
        (changed(2, warm__windows_huge=2), "a probe says"),
        (changed(2, warm__status=1), "warm ends with status 1"),
        (changed(2, warm__code="cache.in-use"), "the reason cache.in-use"),
        (changed(1, able=False), "a probe says that the file system can: False"),
        (changed(2, warm=_UNABLE | {"facts": {"file_system": "ext4"}}), "another file system"),
        (changed(2, after_kib=4096), "warm promised 3 windows, the next process has 4096 KiB"),
        (changed(2, ps__windows_huge=2), "ps sees 2 huge windows, smaps 6144 KiB"),
        (changed(2, ps__windows_possible=2), "ps sees 2 windows, the file has 3"),
        (changed(2, ps__status=1), "ps ends with status 1"),
        (changed(2, congruent=False), "not aligned in memory"),
        (changed(2, congruent=False, program="static-pie"), "not aligned in memory"),
        (changed(1, staged__user=0), "staged, user: 0 KiB are huge"),
        (changed(1, staged__upgrade=4096), "staged, upgrade: 4096 KiB are huge"),
        (changed(1, in_use__next_kib=2048), "in use: warm promised 0 windows"),
        (
            changed(1, in_use__warm__code="file-system.no-huge-pages"),
            "in use: warm ends with status 1 and reason file-system",
        ),
        (changed(1, in_use__warm__status=0), "in use: warm ends with status 0"),
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
