"""examples/report.py: JSON becomes Markdown and SVG, and nothing in it becomes markup."""

import importlib.util
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "examples" / "report.py"
# What would end an element, an attribute, a cell, a fence or a line, and what hides or turns writing.
HOSTILE = "</title></pre><script>alert(1)</script>\"'><b x=`|\r\n```\r\n# h\n| a |\n"
HOSTILE += "<!-- ]]> & \\ [x](http://a.b) \x1b[2J\u202e\ud800\0"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("report", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["report"] = module
    spec.loader.exec_module(module)
    return module


report = load()


def document(word: str) -> dict[str, Any]:
    """A document with everything in it, and *word* wherever there can be one."""
    plot = {"x": word, "y": word, "log_y": True, "series": [{"name": word, "points": [[0, 1234567], [1, 20], [2, 0]]}]}
    table = {"columns": [word, "n"], "rows": [[word, 1234567], ["b", None]]}
    section = {"title": word, "text": word, "command": word, "output": word, "table": table, "plot": plot}
    return {"title": word, "date": word, "machine": {word: word}, "sections": [section]}


def made(tmp_path: Path, value: Any) -> tuple[str, str]:
    (tmp_path / "in.json").write_text(value if isinstance(value, str) else json.dumps(value))
    assert report.main([str(tmp_path / "in.json"), "-o", str(tmp_path / "out")]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["report-1.svg", "report.md"]
    return (tmp_path / "out/report.md").read_text(), (tmp_path / "out/report-1.svg").read_text()


def test_nothing_in_the_document_becomes_svg(tmp_path: Path) -> None:
    _, tame = made(tmp_path, document("word"))
    _, wild = made(tmp_path, document(HOSTILE))
    # The same elements and attributes, whatever the words are; a reader sees the words again.
    shapes = [[(part.tag, sorted(part.attrib)) for part in ET.fromstring(text).iter()] for text in (tame, wild)]  # noqa: S314 - they are our own
    assert shapes[0] == shapes[1]
    names = {tag.partition("}")[2] for tag, _ in shapes[1]}
    assert names == {"svg", "title", "path", "text", "polyline", "circle"}
    assert "</pre><script>alert(1)</script>" in "".join(ET.fromstring(wild).itertext())  # noqa: S314
    assert not re.search("[\0\x1b\u202e]", wild)


def test_nothing_in_the_document_becomes_markdown(tmp_path: Path) -> None:
    tame, _ = made(tmp_path, document("word"))
    wild, _ = made(tmp_path, document(HOSTILE))
    outside = re.sub(r"(?ms)^(`{3,})[^`\n]*\n.*?^\1$", "", wild)
    heads = [line for line in outside.splitlines() if line.startswith("#")]
    assert len(heads) == len([line for line in tame.splitlines() if line.startswith("#")]) == 2
    assert "<" not in outside
    assert not re.search(r"(?<!\\)\[x", outside)
    cells = [len(re.findall(r"(?<!\\)\|", line)) for line in outside.splitlines() if line.startswith("|")]
    assert cells == [3] * len(cells) == [3] * len([line for line in tame.splitlines() if line.startswith("|")])


def test_what_is_in_the_report(tmp_path: Path) -> None:
    text, picture = made(tmp_path, document("word"))
    assert "![word by word](report-1.svg)" in text
    assert "| word | 1,234,567 |" in text
    assert "| b | -- |" in text
    assert "| 1 | 20 |" in text  # the plot's points
    assert "1,234,567" in picture
    assert "http" not in picture.replace("http://www.w3.org", "")


@pytest.mark.parametrize(("log", "value"), [(True, 0), (True, 1e-300), (True, 1e300), (False, -5), (False, 0)])
def test_every_point_lies_within_the_picture(tmp_path: Path, log: bool, value: float) -> None:
    plot = {"log_y": log, "series": [{"name": "a", "points": [[3, value], [3, 7]]}]}
    _, page = made(tmp_path, {"title": "t", "sections": [{"title": "s", "plot": plot}]})
    circles = re.findall(r'<circle cx="([^"]*)" cy="([^"]*)"', page)
    assert len(circles) == 2
    for x, y in circles:
        assert 96 <= float(x) <= 560
        assert 16 <= float(y) <= 328
    assert page.count('text-anchor="end"') >= 2  # ticks


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        ('{"title": "a"', "not JSON"),
        ("[" * 100_000, "nested"),
        ("[]", "the document: not an object"),
        ("{}", "title: not a string"),
        ('{"title": "a", "sections": [{"title": 1}]}', "section 0: title"),
        ('{"title": "a", "sections": [{"title": "b", "table": {"columns": ["x"], "rows": [[1, 2]]}}]}', "cells"),
        ('{"title": "a", "sections": [{"title": "b", "plot": {"series": []}}]}', "no points"),
        ('{"title": "a", "sections": [{"title": "b", "plot": {"series": [{"points": [[1, NaN]]}]}}]}', "NaN"),
        ('{"title": "a", "sections": [{"title": "b", "plot": {"series": [{"points": [[1, 1e999]]}]}}]}', "drawn"),
        ('{"title": "a", "sections": [{"title": "b", "plot": {"series": [{"points": [["x", 1]]}]}}]}', "two numbers"),
        ('{"title": "a", "sections": [{"title": "b", "plot": {"log_y": true, "series": [{"points": [[1, -1]]}]}}]}',
         "drawn"),
    ],
)  # fmt: skip
def test_what_is_not_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, why: str) -> None:
    (tmp_path / "in.json").write_text(text)
    assert report.main([str(tmp_path / "in.json"), "-o", str(tmp_path / "out")]) == 3
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_it_runs_by_itself(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text(json.dumps(document("word")))
    bare = [sys.executable, "-I", "-S", str(SCRIPT), str(tmp_path / "in.json"), "-o", str(tmp_path)]
    assert subprocess.run(bare, check=False).returncode == 0
    assert (tmp_path / "report-1.svg").stat().st_size > 1000
    missing = subprocess.run([*bare[:4], str(tmp_path / "none"), "-o", str(tmp_path)], capture_output=True, check=False)
    assert missing.returncode == 3
    assert b"none: No such file" in missing.stderr
