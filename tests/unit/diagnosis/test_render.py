"""Diagnoses in words and as JSON: the one place that asserts sentences."""

import ast
import importlib
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hugealign.diagnosis import catalogue, forms, render
from hugealign.diagnosis.values import OUTPUT, ROOT, Diagnosis, Remedy

ROOM = Path(render.__file__).parent
SCHEMA = json.loads((ROOM / "diagnosis.schema.json").read_text(encoding="utf-8"))
W = 2 << 20


def sentences() -> Iterator[tuple[str, dict[str, int | str], Remedy | None, str]]:
    """Yield the rows of sentences.txt: code, facts, what helps, and the sentence."""
    text = Path(__file__).with_name("sentences.txt").read_text(encoding="utf-8")
    for row in re.split(r"\n(?=\S)", text.partition("\n\n")[2].rstrip("\n")):
        head, *remedy, sentence = row.split("\n  ")
        code, _, facts = head.partition(" ")
        result: dict[str, Any] = json.loads(remedy[0]) if remedy else {}
        helps = Remedy(**result | {"argv": tuple(result.get("argv", ()))}) if result else None
        yield code, json.loads(facts), helps, sentence


SENTENCES = list(sentences())
RULES = [(code, facts, sentence) for code, facts, _, sentence in SENTENCES if code in catalogue.rules()]


@pytest.mark.parametrize(
    ("code", "facts", "remedy", "text"), [row for row in SENTENCES if row[0] not in catalogue.rules()]
)
def test_text(code: str, facts: dict[str, int | str], remedy: Remedy | None, text: str) -> None:
    assert render.text(Diagnosis(code, "f", facts, remedy)) == text


RELINK = 'relink with CC="hugealign gcc" (or hugealign clang, …)'
WHERE: dict[str, int | str] = {"segment": 2, "flags": "R-E"}


@pytest.mark.parametrize(("code", "facts", "sentence"), RULES)
def test_rules(code: str, facts: dict[str, int | str], sentence: str) -> None:
    diagnosis = Diagnosis(code, "f", {**WHERE, **facts})
    assert render.sentence(diagnosis) == sentence
    assert forms.gcc(diagnosis) == f"f:1:1: {catalogue.row(code).severity}: {sentence} [{code}]"


def test_every_rule_has_a_sentence_here() -> None:
    assert list(dict.fromkeys(code for code, *_ in RULES)) == catalogue.rules()


def test_what_helps() -> None:
    edit = Remedy("fix-or-relink", ("hugealign", "fix", "--in-place", "f"), "", 0, 1)
    for remedy, cure in (
        (None, RELINK),
        (edit, f"hugealign fix --in-place f (0 -> 1 window); or {RELINK}"),
        (Remedy("none"), ""),
    ):
        diagnosis = Diagnosis("HA001", "f", {**WHERE, "align": 1, "page_size": W}, remedy)
        assert render.what_helps(diagnosis) == cure
        assert forms.junit(diagnosis).partition("\nfix: ")[2] == cure
        document = render.document(diagnosis)
        assert document
        assert (document["remedy"] or {"message": ""})["message"] == cure


def test_a_command_runs_as_it_stands_unless_it_needs_something() -> None:
    words = ("hugealign", "fix", "it's", "-o")
    assert shlex.split(render.command(Remedy("fix", words))) == list(words)
    assert render.command(Remedy("fix", words, OUTPUT)) == "hugealign fix 'it'\"'\"'s' -o OUT"
    assert render.command(Remedy("relink")) == ""
    script = ("sh", "-c", "hugealign enable a && systemctl restart a")
    assert render.command(Remedy("run", script)) == script[2]
    assert shlex.split(render.command(Remedy("run", script, ROOT))) == ["sudo", *script]


def test_colours_are_those_of_the_severity() -> None:
    result = Diagnosis("file.replaced", "f", {}, Remedy("run", ("systemctl", "restart", "a")))
    assert render.lines(result) == [
        "\x1b[31mits file has been deleted or replaced since it started\x1b[0m",
        "run: \x1b[36msystemctl restart a\x1b[0m",
    ]
    assert render.lines(Diagnosis("process.not-touched", "f", {})) == ["not touched yet"]


def test_document() -> None:
    remedy = Remedy("fix", ("hugealign", "fix", "--in-place", "f\n"), ROOT, 0, 2)
    result = render.document(Diagnosis("cache.in-use", "f\n", {"process": 7, "name": "\x1b"}, remedy))
    assert result == {
        "code": "cache.in-use",
        "severity": "error",
        "subject": "f\\n",
        "facts": {"process": 7, "name": "\\x1b"},
        "message": "in use by process 7 (\\x1b)",
        "remedy": {
            "kind": "fix",
            "argv": ["hugealign", "fix", "--in-place", "f\n"],
            "needs": "root",
            "before": 0,
            "after": 2,
            "message": "sudo hugealign fix --in-place 'f\\n' (0 -> 2 windows)",
        },
    }
    assert render.document(None) is None


def test_a_name_that_no_json_can_hold_is_not_in_a_command() -> None:
    result = render.document(
        Diagnosis("cache.not-warmed", "\udc80", {}, Remedy("run", ("hugealign", "warm", "\udc80")))
    )
    assert result
    assert result["remedy"]["argv"] == []
    json.dumps(result, ensure_ascii=False).encode()


def test_every_document_has_the_one_form() -> None:
    paths = ROOM.parent.rglob("*-1.schema.json")
    documents = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    result = {
        name: item["$defs"]["diagnosis"] for name, item in documents.items() if "diagnosis" in item.get("$defs", {})
    }
    commands = (
        "adapt",
        "advise",
        "compare",
        "doctor",
        "enable",
        "fix",
        "machine-plan",
        "ps",
        "stage",
        "status",
        "top",
        "verify",
        "warm",
    )
    assert sorted(result) == [f"{command}-1.schema.json" for command in commands]
    assert all(form == SCHEMA for form in result.values())


def test_equal_diagnoses_are_one() -> None:
    first, second, other = (Diagnosis("cache.in-use", "f", {"process": pid}) for pid in (7, 7, 8))
    assert len({first, second, other}) == 2


@pytest.mark.parametrize("code", catalogue.codes())
def test_catalogue(code: str) -> None:
    assert re.fullmatch(SCHEMA["properties"]["code"]["pattern"], code)
    row = catalogue.row(code)
    assert row.severity in catalogue.SEVERITIES
    assert row.title
    assert row.sentence
    page = catalogue.page(code)
    assert page.startswith(f"{code} ({row.severity}): ")
    assert max(map(len, page.splitlines())) <= 80


@pytest.mark.parametrize("code", catalogue.codes())
def test_one_thing_has_one_name(code: str) -> None:
    """Huge pages: not folios, which only the kernel's sources say, nor THP."""
    row = catalogue.row(code)
    assert not re.search(r"folio|\bTHP\b", f"{row.title} {row.sentence} {row.fix}")


@pytest.mark.parametrize("code", catalogue.rules())
def test_a_rule_says_on_what_it_rests(code: str) -> None:
    page, source = catalogue.page(code), catalogue.row(code).source
    assert page.isascii()
    for part in ("What. ", "Why. ", "Cause. ", "Fix. ", "See. "):
        assert page.count(f"\n{part}") == 1, part
    assert "\n    " in page.partition("\nFix. ")[2]
    assert "\n    " in page.partition("\nSee. ")[2]
    assert "".join(page.split()).endswith("".join(f"Rests on: {source}.".split()))
    places = r"\.[ch]\b|commit [0-9a-f]{12}|glibc|musl|System V ABI|SDM|processor|notes\.py|objcopy"
    assert re.search(places, source)


def test_the_document_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOM.parents[1] / "packaging")
    rules = importlib.import_module("rules")
    assert rules.DOCUMENT.read_text(encoding="utf-8") == rules.markdown(), "run: make rules"


def test_what_the_product_says_is_in_the_catalogue_and_nothing_else_is() -> None:
    """Codes and kinds stand as they are in the source, and nothing else is the first argument of what makes one."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in ROOM.parent.rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    words = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    codes, kinds = set(catalogue.codes()), set(catalogue.REMEDIES)
    assert codes <= words
    first = [
        (call.func.id, call.args[0].value)
        for call in nodes
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.args
        if isinstance(call.args[0], ast.Constant)
    ]
    diagnosing = {"Diagnosis", "RefusalError", "DiagnosedError", "ProcessError", "AdviceError", "SamplingError"}
    assert {word for name, word in first if name in diagnosing | {"GoneError", "about", "denied", "found"}} <= codes
    # Errors of rooms below this one carry a code behind their message.
    errors = [call.args[1:] for call in nodes if isinstance(call, ast.Call) and _name(call.func).endswith("Error")]
    second = {arg.value for args in errors for arg in args if isinstance(arg, ast.Constant)}
    assert {word for word in second if isinstance(word, str) and re.fullmatch(r"[a-z-]+\.[a-z-]+", word)} <= codes
    assert {word for name, word in first if name == "Remedy"} <= kinds | {"advice"}
    assert list(catalogue.REMEDIES) == sorted(kinds & words)


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else ""


def test_documents_hold_the_one_form() -> None:
    forms = [json.loads(path.read_text(encoding="utf-8")) for path in ROOM.parent.rglob("*-1.schema.json")]
    held = [form["$defs"]["diagnosis"] for form in forms if "diagnosis" in form.get("$defs", {})]
    assert held
    assert all(form == SCHEMA for form in held)


@pytest.mark.parametrize("mode", ["enabled", "shmem_enabled"])
def test_a_setting_that_cannot_be_read_is_left_out(mode: str) -> None:
    assert "never" in render.text(Diagnosis("machine.thp", "", {mode: "never"}))
