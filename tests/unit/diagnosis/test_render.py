"""Diagnoses in words and as JSON: the one place that asserts sentences."""

import ast
import json
import re
import shlex
from pathlib import Path

import pytest

from hugealign.diagnosis import catalogue, forms, render
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
            "the file system keeps no huge folios for this file; run: hugealign run --file f -- COMMAND",
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
        ("file.unreadable", {"error": "ENOENT"}, None, "it cannot be read: No such file or directory"),
        ("file.unreadable", {"error": ""}, None, "it cannot be read"),
        ("file.directory", {}, Remedy("recurse"), "a directory; check its contents with -r"),
        ("file.damaged", {"part": "cut \x1b off"}, None, "damaged: cut \\x1b off"),
        ("file.damaged", {}, None, "damaged"),
        ("file.truncated", {}, None, "it is truncated"),
        ("file.changed", {}, None, "another process has changed it, or given its name to another file; try again"),
        (
            "file.not-replaced",
            {"names": 2},
            None,
            "a copy cannot replace it: it has 2 names (hard links), and the others would keep the old file",
        ),
        ("file.not-replaced", {"error": "EROFS"}, None, "a copy cannot replace it: Read-only file system"),
        (
            "file.not-replaced",
            {"attribute": "i"},
            None,
            "a copy cannot replace it: it is immutable or append-only (chattr +i)",
        ),
        ("file.empty", {}, None, "no program or shared library in it"),
        (
            "file.empty",
            {"objects": 1, "links": 2},
            None,
            "no program or shared library in it; 1 object file; 2 further hard links",
        ),
        (
            "file.archive",
            {"objects": 2, "text": 11},
            None,
            "a static archive of 2 object files with 11 B of text, which has no segments; link it first",
        ),
        (
            "file.thin-archive",
            {"objects": 1, "text": 0},
            None,
            "a thin archive, which only names 1 object file; link it first",
        ),
        ("file.too-deep", {"depth": 3}, None, "nested or compressed more than 3 levels deep; unpack it first"),
        ("file.members-encrypted", {"files": 2}, None, "it contains 2 encrypted files; unpack it first"),
        (
            "file.unknown-form",
            {"files": 1, "part": "zip method 9"},
            None,
            "hugealign cannot unpack 1 file in it: zip method 9; unpack it first",
        ),
        (
            "file.no-room",
            {"directory": "/tmp"},
            None,
            "no temporary file can be written in /tmp; TMPDIR names another place",
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
            (
                "its file has been deleted or replaced since it started; "
                "run: sudo systemctl restart a.service (0 -> 1 window)"
            ),
        ),
        (
            "runtime.small-pages",
            {"runtime": "HotSpot", "option": "-XX:+X"},
            Remedy("adapt-or-option", ("hugealign", "adapt", "7")),
            "code without a file (HotSpot) is on small pages; run: hugealign adapt 7, or start it with -XX:+X",
        ),
        ("runtime.no-window", {"runtime": "", "option": ""}, None, "code without a file covers no whole window"),
        ("thp.partial", {"huge": 1, "windows": 3}, None, "the kernel made only 1 of 3 windows huge"),
        ("thp.refused", {"error": "EAGAIN"}, Remedy("retry"), "the kernel refused to collapse it (EAGAIN); try again"),
    ],
)  # fmt: skip
def test_text(code: str, facts: dict[str, int | str], remedy: Remedy | None, text: str) -> None:
    assert render.text(Diagnosis(code, "f", facts, remedy)) == text


RELINK = 'relink with CC="hugealign gcc" (or hugealign clang, …)'
WHERE: dict[str, int | str] = {"segment": 2, "flags": "R-E"}
#: The rules of verify: facts beside the segment and its protection, and the sentence.
RULES: list[tuple[str, dict[str, int | str], str]] = [
    ("HA001", {"align": 4096, "page_size": W}, "text is aligned to 4.0 KiB; huge pages require 2.0 MiB"),
    ("HA002", {"page_size": W}, "p_vaddr and p_offset differ modulo 2.0 MiB"),
    ("HA003", {"head": 4096, "pages": "4 KiB"}, "text starts inside a window: its first 4.0 KiB use 4 KiB pages"),
    ("HA004", {"tail": 8192, "pages": "4 KiB"}, "text ends inside a window: its last 8.0 KiB use 4 KiB pages"),
    ("HA005", {"other": 3, "other_flags": "RW-"}, "LOAD 3 (RW-) shares a window with the text"),
    ("HA006", {"missing": 5}, "the file ends 5 B before its text does"),
    ("HA006", {"absent": 5}, "5 B of the text are in memory but not in the file"),
    ("HA006", {"surplus": 5}, "5 B of the text are in the file but not in memory"),
    ("HA007", {}, "the file has a second executable segment"),
    ("HA008", {}, "the text is writable as well as executable"),
    ("HA009", {"section": "a\x1b", "more": 0}, "the executable segment contains a\\x1b"),
    ("HA009", {"section": ".rodata", "more": 2}, "the executable segment contains .rodata and 2 more sections"),
    ("HA010", {}, "the loader applies relocations to the text"),
    ("HA011", {"glibc": "2.31"}, "needs glibc 2.31: before 2.35 it ignores the alignment of libraries"),
    ("HA011", {"musl": "libc.so"}, "needs libc.so: musl ignores the alignment of libraries"),
    ("HA012", {}, "a static PIE: kernels before 6.11 (6.6.92) do not align it"),
    ("HA013", {"end": 0x5000, "mapped": 0x4000}, "RELRO ends at 0x5000, but the mapped memory ends at 0x4000"),
    ("HA014", {"left": 1}, "RELRO leaves its last 1 byte writable"),
    ("HA015", {"address": 0x10}, "the padding at 0x10 is not a trap instruction"),
    (
        "HA017",
        {"page_size": W, "meant": 9, "windows": 0},
        "the link intended 9 windows of 2.0 MiB; the file has 0",
    ),
    (
        "HA017",
        {"page_size": W, "meant": 0, "windows": 0},
        "the link intended windows of 2.0 MiB; the file has 0",
    ),
    ("HA018", {"outside": 4096}, "4.0 KiB of the hot functions lie outside the windows"),
    ("HA019", {"tail": 16}, "the link padded the text to whole windows, but now it ends 16 B into one"),
    (
        "HA019",
        {"tail": 16, "section": ".pad"},
        "the link padded the text to whole windows, but now it ends 16 B into one, although the file still has .pad",
    ),
    ("HA020", {"wasted": W}, "the debug file contains 2.0 MiB of gaps"),
    ("HA021", {"align": 3}, "p_align is 0x3, which is not a power of two"),
    ("HA022", {"align": 1 << 30, "page_size": W}, "aligned to 1.0 GiB; 2.0 MiB is enough"),
    ("HA023", {"other": 0, "below": 4096}, "LOAD 2 begins 4.0 KiB below the start of LOAD 0"),
    ("HA023", {"other": 1, "overlap": 4096}, "LOAD 2 is mapped over 4.0 KiB at the end of LOAD 1"),
    ("HA024", {"base": 0x5000, "page_size": W}, "the image base is 0x5000, not a multiple of 2.0 MiB"),
    ("HA025", {}, "PT_GNU_STACK requests an executable stack"),
    (
        "HA026",
        {"address": 0x1000, "offset": 0, "page_size": W},
        "p_vaddr 0x1000 and p_offset 0x0 are not both multiples of 2.0 MiB: glibc.elf.thp skips the text",
    ),
    (
        "HA027",
        {"align": 4096, "page_size": W},
        "text is aligned to 4.0 KiB: only some loaders and file systems align it to 2.0 MiB",
    ),
    (
        "HA028",
        {"lost": 4096, "pages": "4 KiB"},
        "4.0 KiB of text stay on 4 KiB pages; fix cannot make more windows whole",
    ),
    ("HA029", {"surplus": 16}, "LOAD 2 has 16 B more in the file than in memory"),
    ("HA029", {"end": 1 << 48}, "LOAD 2 reaches beyond the end of the address space: 0x1000000000000"),
    ("HA029", {"modulo": 4096}, "LOAD 2: p_vaddr and p_offset differ modulo 4.0 KiB"),
    ("HA029", {"missing": 1}, "LOAD 2 ends 1 B beyond the end of the file"),
    ("HA030", {"windows": 1, "wanted": 2}, "the text has 1 whole window, not 2"),
    (
        "HA031",
        {"processor": "mips"},
        "it is for mips; hugealign neither judges nor changes where its text lies",
    ),
]


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
        assert render.cure(diagnosis) == cure
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
    found = Diagnosis("file.replaced", "f", {}, Remedy("run", ("systemctl", "restart", "a")))
    assert render.lines(found) == [
        "\x1b[31mits file has been deleted or replaced since it started\x1b[0m",
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


def test_every_document_has_the_one_form() -> None:
    paths = ROOM.parent.rglob("*-1.schema.json")
    documents = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    found = {name: one["$defs"]["diagnosis"] for name, one in documents.items() if "diagnosis" in one.get("$defs", {})}
    commands = ("adapt", "advise", "doctor", "enable", "fix", "ps", "stage", "status", "top", "verify", "warm")
    assert sorted(found) == [f"{command}-1.schema.json" for command in commands]
    assert all(form == SCHEMA for form in found.values())


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


@pytest.mark.parametrize("code", catalogue.rules())
def test_a_rule_says_on_what_it_rests(code: str) -> None:
    page, source = catalogue.page(code), catalogue.row(code).source
    assert page.isascii()
    for part in ("What. ", "Why. ", "How it comes about. ", "Fix. ", "See. "):
        assert page.count(f"\n{part}") == 1, part
    assert "\n    " in page.partition("\nFix. ")[2]
    assert "\n    " in page.partition("\nSee. ")[2]
    assert "".join(page.split()).endswith("".join(f"Rests on: {source}.".split()))
    places = r"\.[ch]\b|commit [0-9a-f]{12}|glibc|musl|System V ABI|SDM|processor|notes\.py|objcopy"
    assert re.search(places, source)


def test_the_document_is_up_to_date() -> None:
    document = ROOM.parents[1] / "docs" / "reference" / "rules.md"
    assert document.read_text(encoding="utf-8") == catalogue.markdown(), "run: make docs"


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
