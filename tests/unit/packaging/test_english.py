"""What `make check` takes for code that reads sentences, and what not."""

import importlib
import sys

import pytest

from tests.support import ROOT

sys.path.append(str(ROOT / "packaging"))
english = importlib.import_module("english")

HEAD = "import re\nfrom hugealign.diagnosis import render\nfrom hugealign.errors import cause\n"


@pytest.mark.parametrize(
    "line",
    [
        'render.text(x).startswith("no")',
        '"page" in render.sentence(x)',
        'a = cause(x); a.partition(": ")',
        'x.message.endswith("!")',
        'reason == "no window"',
        're.search("no", x.reason)',
        '"no" in f"{render.text(x)}"',
        're.compile("no").match(render.text(x))',
        "render.text(x) == render.text(y)",
        "sorted(x, key=render.text)",
        "max(x, key=lambda one: render.text(one))",
        "{render.text(one): one for one in x}",
        "dict.fromkeys(map(render.what_helps, x))",
        'render.text(x).lower() == "no"',
        'render.document(x)["message"].startswith("no")',
        '(said := render.what_helps(x)) and said.removeprefix("run: ")',
    ],
)
def test_reads(line: str) -> None:
    assert list(english.violations(HEAD + line)) == [4]
    assert list(english.violations(f"{HEAD}def f(x):\n    {line}\n")) == [5]


def test_reads_an_exception() -> None:
    body = "try:\n    pass\nexcept OSError as error:\n    "
    assert list(english.violations(f'{body}"no" in str(error)')) == [4]
    assert not list(english.violations(f'{body}"no" in str(other)'))
    assert not list(english.violations(f"{body}error.errno == 2"))


def test_reads_what_a_function_of_the_module_returns() -> None:
    body = f"{HEAD}def words(x):\n    return render.text(x)\ndef f(x):\n    return"
    assert list(english.violations(f'{body} words(x).startswith("no")')) == [7]
    assert not list(english.violations(f"{body} words(x)"))


def test_reads_by_a_match() -> None:
    assert list(english.violations(f'{HEAD}match render.text(x):\n    case "no":\n        pass\n')) == [4]


@pytest.mark.parametrize(
    "line",
    [
        "render.text(x)",
        'x.code == "HA001"',
        'x.code.startswith("HA")',
        "if reason: pass",
        "reason in accepted",
        "x.reason == reason",
    ],
)
def test_does_not(line: str) -> None:
    assert not list(english.violations(HEAD + line))
