"""Diagnoses in words and as JSON: the one place that asserts sentences."""

import json
import re
import shlex
from pathlib import Path

import pytest

from hugealign.diagnosis import catalogue, render
from hugealign.diagnosis.values import ARGUMENTS, COMMAND, OUTPUT, ROOT, Diagnosis, Remedy

ROOM = Path(render.__file__).parent
SCHEMA = json.loads((ROOM / "diagnosis.schema.json").read_text(encoding="utf-8"))
W = 2 << 20


@pytest.mark.parametrize(
    ("code", "facts", "remedy", "text"),
    [
        ("cache.not-warmed", {}, Remedy("run", ("hugealign", "warm", "a b")), "not warmed; run: hugealign warm 'a b'"),
        (
            "cache.in-use",
            {"process": 7, "name": "x\x1b", "others": 0},
            Remedy("stop"),
            "in use by process 7 (x\\x1b); stop it and try again",
        ),
        (
            "cache.in-use",
            {"process": 7, "others": 2},
            Remedy("stop", ("hugealign", "warm", "--replace", "f")),
            "in use by process 7 and 2 more; stop it and try again, or replace the file: hugealign warm --replace f",
        ),
        ("cache.open-for-writing", {}, None, "open for writing"),
        ("cache.open-for-writing", {"process": 7}, None, "open for writing by process 7"),
        ("cache.dirty", {"dirty": 1}, None, "its pages are still being written to disk (1 page left)"),
        (
            "file-system.no-huge-pages",
            {"file_system": ""},
            Remedy("run", ("hugealign", "run", "--file", "f", "--"), COMMAND),
            "the file system gives this file no huge folios; run: hugealign run --file f -- COMMAND",
        ),
        (
            "memory.fragmented",
            {"page_size": W},
            Remedy("prepare", ("sh", "-c", "echo 1 >/x"), ROOT),
            "memory is fragmented: no free block of 2.0 MiB; run: sudo sh -c 'echo 1 >/x'; then try again",
        ),
        ("memory.limit", {"limit": 3 << 19}, None, "the memory limit of this control group, 1.5 MiB, is too small"),
        (
            "text.no-window",
            {"page_size": W},
            Remedy("run", ("hugealign", "fix", "--in-place", "f"), "", 0, 1),
            "no whole 2.0 MiB window of text; run: hugealign fix --in-place f (0 -> 1 window)",
        ),
        (
            "cache.small-pages",
            {"windows": 3},
            Remedy("start", ("hugealign", "run", "a"), ARGUMENTS),
            "the page cache does not hold its text in huge pages; start it with: hugealign run a [ARG]...",
        ),
        (
            "file.replaced",
            {},
            Remedy("run", ("systemctl", "restart", "a.service"), ROOT, 0, 1),
            "its file was deleted or replaced since it started; run: sudo systemctl restart a.service (0 -> 1 window)",
        ),
        (
            "runtime.small-pages",
            {"runtime": "HotSpot", "option": "-XX:+X"},
            Remedy("adapt-or-option", ("hugealign", "adapt", "7")),
            "code without a file (HotSpot) is on small pages; run: hugealign adapt 7, or start it with -XX:+X",
        ),
        ("runtime.no-window", {"runtime": "", "option": ""}, None, "code without a file lies in no whole window"),
        (
            "text.unaligned",
            {"text": 5 << 20, "page_size": W},
            Remedy("retry"),
            "5.0 MiB of text, not aligned: its address and file offset differ modulo 2.0 MiB; try again",
        ),
        ("thp.partial", {"huge": 1, "windows": 3}, None, "the kernel made only 1 of 3 windows huge"),
        ("thp.refused", {"error": "EAGAIN"}, Remedy("retry"), "the kernel refused to collapse it (EAGAIN); try again"),
    ],
)  # fmt: skip
def test_text(code: str, facts: dict[str, int | str], remedy: Remedy | None, text: str) -> None:
    assert render.text(Diagnosis(code, "f", facts, remedy)) == text


def test_a_command_runs_as_it_stands_unless_it_needs_something() -> None:
    words = ("hugealign", "fix", "it's", "-o")
    assert shlex.split(render.command(Remedy("fix", words))) == list(words)
    assert render.command(Remedy("fix", words, OUTPUT)) == "hugealign fix 'it'\"'\"'s' -o OUT"
    assert render.command(Remedy("relink")) == ""
    script = ("sh", "-c", "hugealign enable a && systemctl restart a")
    assert render.command(Remedy("run", script)) == script[2]
    assert shlex.split(render.command(Remedy("run", script, ROOT))) == ["sudo", *script]


def test_colours_are_those_of_the_severity() -> None:
    found = Diagnosis("file.replaced", "f", {}, Remedy("run", ("systemctl", "restart", "a")))
    assert render.lines(found) == [
        "\x1b[31mits file was deleted or replaced since it started\x1b[0m",
        "run: \x1b[36msystemctl restart a\x1b[0m",
    ]
    assert render.lines(Diagnosis("process.not-touched", "f", {})) == ["not touched yet"]


def test_document() -> None:
    remedy = Remedy("fix", ("hugealign", "fix", "--in-place", "f\n"), ROOT, 0, 2)
    found = render.document(Diagnosis("cache.in-use", "f\n", {"process": 7, "name": "\x1b"}, remedy))
    assert found == {
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
    found = render.document(Diagnosis("cache.not-warmed", "\udc80", {}, Remedy("run", ("hugealign", "warm", "\udc80"))))
    assert found
    assert found["remedy"]["argv"] == []
    json.dumps(found, ensure_ascii=False).encode()


def test_equal_diagnoses_are_one() -> None:
    first, second, other = (Diagnosis("cache.in-use", "f", {"process": pid}) for pid in (7, 7, 8))
    assert len({first, second, other}) == 2


def test_catalogue() -> None:
    assert list(catalogue.REMEDIES) == sorted(catalogue.REMEDIES)
    for code in catalogue.codes():
        assert re.fullmatch(SCHEMA["properties"]["code"]["pattern"], code)
        row = catalogue.row(code)
        assert row.severity in ("error", "note")
        assert row.title
        assert row.sentence
        assert max(map(len, catalogue.page(code).splitlines())) <= 80


def test_what_the_product_says_is_in_the_catalogue_and_nothing_else_is() -> None:
    texts = (path.read_text(encoding="utf-8") for path in ROOM.parent.rglob("*.py"))
    source = "".join(text for text in texts if "hugealign.diagnosis" in text or "RefusalError" in text)
    code = r'(?:Diagnosis|RefusalError)\(\s*(?:\{.*?: )?["\']([a-z-]+\.[a-z-]+)["\']'
    chosen = {"file.core", "file.no-program"}  # at the end of a table
    areas = {code.partition(".")[0] for code in catalogue.codes()}
    watch = "".join(path.read_text(encoding="utf-8") for path in (ROOM.parent / "watch").glob("*.py"))
    chosen |= {word for word in re.findall(r'"([a-z-]+\.[a-z-]+)"', watch) if word.partition(".")[0] in areas}
    assert {*re.findall(code, source), *chosen} == set(catalogue.codes())
    kinds = re.findall(r'(?:Remedy|_command)\("([a-z-]+)"|(?:replace|found)\.changed\(kind="([a-z-]+)"', source)
    assert {first or second for first, second in kinds} == set(catalogue.REMEDIES)


def test_documents_hold_the_one_form() -> None:
    forms = [json.loads(path.read_text(encoding="utf-8")) for path in ROOM.parent.rglob("*-1.schema.json")]
    held = [form["$defs"]["diagnosis"] for form in forms if "diagnosis" in form.get("$defs", {})]
    assert held
    assert all(form == SCHEMA for form in held)
