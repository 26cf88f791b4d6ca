"""``make check`` sees names of what does not exist: each that once stood in a document does so again here."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from tests.support import ROOT


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "packaging")
    return importlib.import_module("names")


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        ("docs/reference/verify.md", "nothing found; with `-- OLD`: not worse", ["-- OLD"]),
        ("docs/reference/diff.md", "with `-- OLD`", ["-- OLD"]),
        ("docs/reference/api.md", "of `hugealign.diagnosis.catalogue.CODES`", ["hugealign.diagnosis.catalogue.CODES"]),
        ("docs/reference/api.md", "a row of `hugealign.diagnosis.catalogue.codes`", []),
        ("hugealign/diagnosis/values.py", "as in ``catalogue.CODES``", ["catalogue.CODES"]),
        ("docs/a.md", "(`pytest -m matrix tests/commands/test_missed.py`)", ["tests/commands/test_missed.py"]),
        ("docs/a.md", "(`pytest -m matrix lab/tests/test_missed.py`)", []),
        ("docs/guides/a.md", "first: `examples/mysql/run.sh`, `examples/postgres/run.sh`", ["examples/mysql/run.sh"]),
        ("hugealign/io/a.py", "without backticks, in examples/mysql/run.sh", ["examples/mysql/run.sh"]),
        ("tests/README.md", "`traces.py` makes traces; `strace.py` fails calls", ["traces.py"]),
        ("lab/README.md", "`traces.py` makes traces", []),
        ("docs/a.md", "`make check`, then `make checks`", ["make checks"]),
        ("docs/a.md", "`hugealign verify -r --strict DIR`", ["hugealign verify --strict"]),
        ("docs/a.md", "`hugealign run --fix -- gcc --version`", []),
        ("ARCHITECTURE.md", "`elf/windows.text_windows` and `Remedies` (`watch/remedies.py`)", []),
        ("ARCHITECTURE.md", "`elf/windows.texts_windows`", ["elf/windows.texts_windows"]),
        ("docs/a.md", "a user's `app.sh`, `src/main.c` and /usr/lib/tests/x", []),
    ],
)  # fmt: skip
def test_names(place: str, text: str, expected: list[str], names: ModuleType) -> None:
    """Files and names of this checkout are what its documents may name."""
    files = [
        str(path.relative_to(ROOT))
        for top in ("tests", "lab", "hugealign", "examples")
        for path in (ROOT / top).rglob("*.*")
    ]
    checkout = names.Checkout(ROOT, [file for file in files if "__pycache__" not in file])
    assert list(checkout.missing(text, place)) == expected


def test_prose(names: ModuleType, tmp_path: Path) -> None:
    """Docstrings and comments are read, code and fenced blocks are not."""
    module, page = tmp_path / "a.py", tmp_path / "a.md"
    module.write_text('"""In `one`."""\ndef f():\n    """In `two`."""\n    return "`three`"  # in `four`\n')
    page.write_text("In `one`.\n\n```sh\n`two`\n```\n\nIn `three`.\n")
    found = [
        [word for word in ("one", "two", "three", "four") if f"`{word}`" in names.prose(p)] for p in (module, page)
    ]
    assert found == [["one", "two", "four"], ["one", "three"]]


def test_composed(names: ModuleType) -> None:
    """The paths that a bench composes: its own inputs, and those of the checkout."""
    text = """
from pathlib import Path
from tests.support import ROOT
HERE = Path(__file__).parent
INPUTS = (HERE / "a.cc", Path(__file__).with_name("b.c"), ROOT / "tests" / "corpus" / "c.cc")
def f(name):
    return Path(__file__).parents[2] / "bin" / "d", HERE / f"{name}.cc"
"""
    made = {str(path) for path in names.composed(text, Path("/x/lab/bench/m.py"))}
    assert {"/x/lab/bench/a.cc", "/x/lab/bench/b.c", f"{ROOT}/tests/corpus/c.cc", "/x/bin/d"} <= made


def test_what_benches_name_exists(names: ModuleType) -> None:
    """No input of a bench is missing but what it builds itself."""
    for path in (ROOT / "lab").rglob("*.py"):
        for made in names.composed(path.read_text(encoding="utf-8"), path):
            assert made.exists() or made.is_relative_to(ROOT / "build"), path
