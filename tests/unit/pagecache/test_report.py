"""What `warm` says of a file: pure functions."""

import json
from typing import Any

import jsonschema
import pytest

from hugealign.cli.output import plain
from hugealign.diagnosis import documents, render
from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.errors import HugealignError
from hugealign.pagecache import report
from hugealign.pagecache.measure import CacheState
from hugealign.pagecache.report import Missing, Report, ranges, shortened, total
from hugealign.pagecache.warm import CachedText
from hugealign.pagecache.warming import Warmth
from tests.documents import check
from tests.support import advised, worded

W = 2 << 20
NOTE = Diagnosis("text.windows-meant", "f", {"windows": 1})
IN_USE = Diagnosis("cache.in-use", "f", {"process": 7, "name": "x"}, Remedy("stop"))


@pytest.mark.parametrize(
    ("offsets", "text"),
    [
        ([], ""),
        ([0], "0x0-0x200000"),
        ([W, 2 * W, 4 * W], "0x200000-0x600000, 0x800000-0xa00000"),
        (range(0, 11 * W, 2 * W), "0x0-0x200000, 0x400000-0x600000, 0x800000-0xa00000, 0xc00000-0xe00000 and 2 more"),
    ],
)  # fmt: skip
def test_ranges(offsets: list[int], text: str) -> None:
    assert ranges(offsets) == text


def lines(text: CachedText) -> list[str]:
    return [plain(line) for line in report.lines(text)]


def test_lines() -> None:
    part = CachedText("a\nb", [0, W, 2 * W], Warmth((True, False, False)), IN_USE, notes=[NOTE])
    assert lines(part) == [
        "a\\nb: 1 of 3 windows huge (2.0 MiB)",
        f"  {worded('text.windows-meant', windows=1)}",
        f"  {worded('cache.in-use', process=7, name='x')}; {advised('stop')}",
        "  not huge: file offsets 0x200000-0x600000",
    ]
    assert lines(CachedText("f", [0], Warmth((True,)))) == ["f: 1 of 1 windows huge (2.0 MiB)"]
    assert shortened(["a", "b"]) == "a, b"


def test_total() -> None:
    whole, none = CachedText("f", [0], Warmth((True,))), CachedText("/lib/l.so", [], Warmth(()))
    assert total([whole.changed(library=True)]) == []
    assert total([whole, none.changed(library=True)]) == [
        "1 library without a whole window: l.so",
        "total: 1 of 1 windows huge (2.0 MiB)",
    ]


def documented() -> dict[str, Any]:
    """Return what `warm --json` prints of two files, a missing library and an error."""
    texts = [
        CachedText("a\x1b", [W, 2 * W], Warmth((True, False), ("readahead",), CacheState(1, 0, 0)), IN_USE),
        CachedText("b", [0], Warmth((True,)), replaced=True, library=True),
    ]
    errors = documents.failed([("c", HugealignError("message"))])
    made: dict[str, Any] = check(documents.text(Report(texts, [Missing("lib\n", "a")], errors, W)))
    return made


def test_document() -> None:
    result = documented()
    assert result["schema"] == "hugealign.warm/1"
    assert result["huge_bytes"] == 2 * W
    assert result["files"][0] == {
        "path": "a\\x1b", "library": False, "replaced": False, "windows": 2, "windows_huge": 1, "huge_bytes": W,
        "small_offsets": [2 * W], "methods": ["readahead"],
        "diagnosis": render.document(IN_USE), "notes": [],
    }  # fmt: skip
    assert (result["files"][1]["library"], result["files"][1]["diagnosis"]) == (True, None)
    assert result["libraries_missing"] == [{"name": "lib\\n", "needed_by": "a"}]
    assert result["errors"] == [{"target": "c", "message": "message", "diagnosis": None}]
    assert json.loads(json.dumps(result)) == result


def test_document_follows_the_schema() -> None:
    result = documented()
    result["files"][0]["methods"] = ["magic"]
    with pytest.raises(jsonschema.ValidationError):
        check(json.dumps(result))
