"""Every form of the report, with names that try to break out of it, read back by a parser that is not ours."""

import json
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest

from hugealign.diagnosis import documents
from hugealign.diagnosis.values import Diagnosis
from hugealign.elf.coverage import Coverage
from hugealign.elf.image import Segment
from hugealign.io.units import printable
from hugealign.verification.compare import Comparison, Pair
from hugealign.verification.formats import comparison, render, text
from hugealign.verification.result import FileReport, Verification
from hugealign.verification.selection import Selection

M = 2 << 20
#: No slash: each is also made on a real file system below.
NAMES = (
    "plain", "new\nline", "new\n::error::line", "return\r::error::x", "esc\x1b[31m", "quo\"te's",
    "::error file=x::owned", " ::warning::owned", "a::b", "100%25", "%0A::error::owned", "]]>", "<&>", "com,ma;title=x",
    "##[error]owned", "x ##[add-mask]y", "tab\there", "colon:1:1: error: y [HA001]", "ü漢", "bytes\udcff\udcfe",
    "nonchar\ufffe", "line\u2028sep", "bidi\u202e", "-dash", "$(touch x)`y`", "{{x}}${{ y }}", "back\\slash",
    "http:name", "?query#fragment", "nul\x01",
)  # fmt: skip


#: Facts of all rules that stand here.
FACTS: dict[str, int | str] = {
    "align": 4096,
    "page_size": M,
    "head": 1,
    "tail": 2,
    "other": 3,
    "other_flags": "RW-",
    "missing": 4,
    "pages": "4 KiB",
}


def report(
    path: str,
    *codes: str,
    problem: str = "",
    huge: int = 0,
    flags: int = 5,
    size: int = 3 * M,
    section: str = ".rodata",
) -> FileReport:
    """A report made by hand, with one segment, and *section* in it; or with a *problem*."""
    if problem:
        return FileReport(path, problem=Diagnosis("file.damaged", path, {"part": problem}))
    segment = Segment(1, flags, M, M, size, size, M, index=2)
    part = Coverage(size, huge, huge // M, 0)
    facts = {"segment": segment.index, "flags": segment.flags, **FACTS, "section": section, "more": 0}
    values = tuple(Diagnosis(code, path, facts) for code in codes)
    small = size < 1 << 18
    return FileReport(path, part, values, (segment,), small, coverages=(part,), file_size=5 * M, build_id="00ff")


def outcome(*reports: FileReport, **selection: Any) -> Verification:
    chosen = Selection(**selection)
    return Verification(tuple(chosen.judge(item) for item in reports), chosen.fail_on)


def json_names(output: str) -> list[str]:
    return [file["path"] for file in json.loads(output)["files"]]


def sarif_names(output: str) -> list[str]:
    (only,) = json.loads(output)["runs"]
    places = [result["locations"][0] for result in only["results"]]
    places += [reported["locations"][0] for reported in only["invocations"][0]["toolExecutionNotifications"]]
    uris = [place["physicalLocation"]["artifactLocation"]["uri"] for place in places]
    for uri in uris:
        assert re.fullmatch(r"(%[0-9A-F]{2}|[A-Za-z0-9_.~/-])+", uri), uri  # RFC 3986: no scheme, query, fragment
    return [printable(os.fsdecode(unquote_to_bytes(uri))) for uri in uris]


def github_commands(output: str) -> list[tuple[str, dict[str, str], str]]:
    """Read as the runner does (ActionCommand.cs): command, properties, message."""
    commands = []
    for line in output.split("\n"):
        if match := re.fullmatch(r"\s*::([a-z-]+) ?(.*?)::(.*)", line):
            pairs = [pair.split("=", 1) for pair in match[2].split(",") if "=" in pair]
            escapes = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}
            properties = {}
            for key, value in pairs:
                for escape, meant in escapes.items():
                    value = value.replace(escape, meant)  # noqa: PLW2901
                properties[key] = value
            commands.append((match[1], properties, match[3]))
    return commands


def github_names(output: str) -> list[str]:
    commands = github_commands(output)
    assert {name for name, _, _ in commands} <= {"error", "warning", "notice"}
    assert all(set(properties) == {"file", "title"} for _, properties, _ in commands)
    plain = [line for line in output.splitlines() if not line.startswith("::")]
    assert re.match(r"\d+ files?: ", plain[0])
    return [properties["file"] for _, properties, _ in commands]


def junit_names(output: str) -> list[str]:
    return [case.attrib["name"] for case in ET.fromstring(output).iter("testcase")]  # noqa: S314


def no_commands(output: str) -> None:
    """Nothing for GitHub's runner to obey, in what is merely shown in a log."""
    assert "##[" not in output
    assert not re.search(r"^\s*::", output, re.MULTILINE)


def gcc_names(output: str) -> list[str]:
    no_commands(output)
    values = [re.fullmatch(r"(.*):1:1: error: .* \[(?:file.[a-z-]+|HA001)\]", x) for x in output.splitlines()]
    return [match[1] if match else "" for match in values]


def text_names(output: str) -> list[str]:
    no_commands(output)
    heads = [line for line in output.partition("\n\n")[0].split("\n") if line and line[:4] != "    "]
    values = [re.fullmatch(r"(.*): (?:FAILED  .*|could not check: .*)", line) for line in heads]
    return [match[1] for match in values if match]


def in_logs(name: str) -> str:
    return text.log_lines([printable(name)])[:-1]


#: form -> (its reader, the name as it must come back)
FORMS: dict[str, tuple[Callable[[str], list[str]], Callable[[str], str]]] = {
    "json": (json_names, printable),
    "sarif": (sarif_names, printable),
    "github": (github_names, printable),
    "junit": (junit_names, printable),
    "gcc": (gcc_names, in_logs),
    "text": (text_names, in_logs),
}


def rendered(form: str, outcome: Verification, base: str = "/base", **style: bool) -> str:
    return render(form, outcome, text.Style(**style), base)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("form", FORMS)
def test_hostile_names(form: str, name: str) -> None:
    read, shown = FORMS[form]
    output = rendered(form, outcome(report(name, "HA001"), report(name, problem="what is it?")))
    assert read(output) == [shown(name), shown(name)]
    assert all(line.isprintable() for line in output.split("\n"))


def test_hostile_messages() -> None:
    """Names inside of ELF files end up in messages."""
    item = outcome(
        report("x", "HA009", section="::error::x ##[error] " + "y " * 40 + "::stop-commands::z ]]> \udcff\n")
    )
    for form in ("text", "gcc"):
        no_commands(rendered(form, item))
    assert len(github_commands(rendered("github", item))) == 1
    assert len(junit_names(rendered("junit", item))) == 1


def test_text_fits_and_adds_up() -> None:
    reports = [report("a", huge=2 * M), report("b", "HA001", "HA009"), report("c", problem="no"), report("d", size=100)]
    output = rendered("text", outcome(*reports), verbose=True)
    assert max(map(len, output.splitlines())) <= 80
    assert "4 files: 2 ok, 1 failed, 1 not checked; 1 error, 1 warning\n" in output
    assert "33.3 % of 12.0 MiB of text in whole windows; 100 B of it in small files\n" in output
    rows = [re.split(r"  +", line.strip()) for line in output.splitlines() if re.match(r" +\d+\.\d MiB", line)]
    assert rows == [
        ["6.0 MiB", "4.0 MiB", "66.6 %", "2", "--", "a"],
        ["6.0 MiB", "4.0 MiB", "66.6 %", "2", "--", "LOAD 2 R-E"],
        ["6.0 MiB", "0 B", "0.0 %", "0", "--", "b"],
        ["6.0 MiB", "0 B", "0.0 %", "0", "--", "LOAD 2 R-E"],
        ["12.0 MiB", "4.0 MiB", "33.3 %", "2", "--", "TOTAL"],
    ]


def test_colours_are_all_that_colour_adds() -> None:
    reports = outcome(report("a"), report("b", "HA001", "HA009"), report("c", problem="no"))
    plain = rendered("text", reports)
    coloured = rendered("text", reports, colour=True)
    assert "\x1b" not in plain
    assert "\x1b[31merror[HA001]\x1b[0m: " in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_junit_counts() -> None:
    files = outcome(
        report("good", huge=3 * M), report("bad", "HA001"), report("none", problem="no"), report("s", size=9)
    )
    root = ET.fromstring(rendered("junit", files))  # noqa: S314
    suite = root[0]
    assert {key: suite.attrib[key] for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4", "failures": "1", "errors": "1", "skipped": "1",
    }  # fmt: skip
    assert [[child.tag for child in case] for case in suite] == [[], ["failure"], ["error"], ["skipped"]]


def check_sarif(document: Any) -> None:
    """What SARIF 2.1.0 makes mandatory for the parts that we write; section numbers are the specification's.

    No small Python package ships the OASIS schema, so this is a part of it: required properties (3.13.1, 3.14.6,
    3.18.2, 3.19.2, 3.20.14, 3.49.3), allowed values (3.27.10, 3.35.2), indices that point where they say (3.27.6), and
    URIs of the right form (3.4.3).
    """
    assert document["version"] == "2.1.0"
    for item in document["runs"]:
        driver = item["tool"]["driver"]
        assert driver["name"]
        ids = [rule["id"] for rule in driver["rules"]]
        assert len(set(ids)) == len(ids)
        for rule in driver["rules"]:
            assert rule["shortDescription"]["text"]
            assert rule["fullDescription"]["text"]
            assert rule["help"]["text"]
            assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
        for invocation in item["invocations"]:
            assert isinstance(invocation["executionSuccessful"], bool)
            for notification in invocation["toolExecutionNotifications"]:
                assert notification["message"]["text"]
        for result in item["results"]:
            assert result["message"]["text"]
            assert result["level"] in ("none", "note", "warning", "error")
            assert ids[result["ruleIndex"]] == result["ruleId"]
            assert all(isinstance(value, str) and value for value in result["partialFingerprints"].values())
            assert all(s["kind"] in ("inSource", "external") for s in result.get("suppressions", []))
            for location in result["locations"]:
                place = location["physicalLocation"]
                assert re.fullmatch(r"(file:///)?[^\s\\:<>\"{}|^`]+", place["artifactLocation"]["uri"])
                region = place["region"]
                assert region["startLine"] >= 1
                assert region.get("byteOffset", 0) >= 0


def test_sarif_is_what_the_specification_says() -> None:
    files = outcome(report("./a", "HA001", "HA009"), report("/base/b/c", "HA004"), report("/x/d", "HA001"))
    document = json.loads(rendered("sarif", files))
    check_sarif(document)
    results = document["runs"][0]["results"]
    uris = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in results]
    assert uris == ["a", "a", "b/c", "file:///x/d"]
    assert [r["level"] for r in results] == ["error", "warning", "error", "error"]
    assert results[0]["partialFingerprints"]["buildId/v1"] == "00ff:HA001:2"
    every = [r["partialFingerprints"]["primaryLocationLineHash"] for r in results]
    assert len(set(every)) == 4
    assert document["runs"][0]["invocations"][0]["executionSuccessful"] is True
    document["runs"][0]["results"][0]["ruleIndex"] = 1
    with pytest.raises(AssertionError):
        check_sarif(document)


def test_sarif_of_a_segment_beyond_the_file() -> None:
    item = report("x", "HA006")
    item.segments[0].p_offset = (1 << 64) - 1
    (result,) = json.loads(rendered("sarif", outcome(item)))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}


def test_github_levels_and_places() -> None:
    output = rendered("github", outcome(report("/base/a", "HA001", "HA009")))
    assert [(name, p["file"]) for name, p, _ in github_commands(output)] == [("error", "a"), ("warning", "a")]
    assert "fix: " in github_commands(output)[0][2].split("%0A")[1]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_hostile_names_in_a_comparison(name: str) -> None:
    selection = Selection()
    pair = Pair(selection.judge(report(name, "HA001")), selection.judge(report(name)), "error")
    output = comparison.render_text(Comparison((pair,)), text.Style())
    no_commands(output)
    assert all(line.isprintable() for line in output.split("\n"))
    assert json.loads(documents.text(Comparison((pair,))))["pairs"][0]["new"]["path"] == printable(name)
