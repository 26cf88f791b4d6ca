"""The rebuild of Debian's packages: what test suites say, how two builds differ, and the page."""

from dataclasses import replace

import pytest

from hugealign.elf.guards import Guards
from tests.archive.comparing import Build, Program, differences
from tests.archive.packages import Package, packages
from tests.archive.page import page
from tests.archive.suites import summaries

BUILD = Build(
    0, ["# PASS: 3"], ["p Depends: libc6"], ["-rw-r--r-- root/root ./usr/bin/p"], {"usr/bin/p": Program(Guards())}
)


@pytest.mark.parametrize(
    ("line", "summary"),
    [
        ("# PASS:  146", "# PASS: 146"),
        ("100% tests passed, 0 tests failed out of 12", "100% tests passed, 0 tests failed out of 12"),
        ("Ok:                 65  ", "Ok: 65"),
        ("============ 120 passed, 3 skipped in 0.61s ============", "============ 120 passed, 3 skipped"),
        ("Ran 11 tests in 0.023s", "Ran 11 tests"),
        ("test result: ok. 7 passed; 0 failed; 0 filtered out; finished in 0.00s",
         "test result: ok. 7 passed; 0 failed; 0 filtered out"),
        ("ok  \tgithub.com/x/y\t0.004s", "ok github.com/x/y"),
        ("Runs: 66 Passes: 27 Fails: 39", "Runs: 66 Passes: 27 Fails: 39"),
        ("[  PASSED  ] 210 tests.", "[ PASSED ] 210 tests"),
        ("\x1b[1;32mAll tests passed.\x1b[m", "All tests passed."),
    ],
)  # fmt: skip
def test_summaries_have_counts_and_no_times(line: str, summary: str) -> None:
    assert summaries(f"cc -c a.c\n{line}\nok then\n") == [summary]


def test_the_same_is_no_difference() -> None:
    assert differences(BUILD, BUILD) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"status": 2}, ["status: 0 → 2"]),
        ({"suite": ["# PASS: 2"]}, ["test suite: - # PASS: 3", "test suite: + # PASS: 2"]),
        ({"suite": ["# PASS: 3"] * 2}, ["test suite: + # PASS: 3"]),
        ({"fields": []}, ["control field: - p Depends: libc6"]),
        ({"files": []}, ["file: - -rw-r--r-- root/root ./usr/bin/p"]),
        ({"files": [*BUILD.files, *map(str, range(9))]}, [*(f"file: + {n}" for n in range(6)), "file: 3 more"]),
        ({"programs": {"usr/bin/p": Program(Guards(relro=False))}}, ["weaker: usr/bin/p: RELRO would be missing"]),
        ({"programs": {"usr/bin/p": Program(Guards(), 0, True, ("HA003",))}}, ["verify: usr/bin/p: HA003"]),
    ],
)
def test_each_difference_is_said(change: dict[str, object], said: list[str]) -> None:
    assert differences(BUILD, replace(BUILD, **change)) == said  # type: ignore[arg-type]


def test_page() -> None:
    record = {"version": "1", "how": "sequence", "status": [0, 0], "suite": [], "files": 2, "programs": 1, "large": 1,
              "windows": [0, 2], "differences": ["verify: p: HA003"]}  # fmt: skip
    listed = [Package("a", "make", cause="It is so."), Package("b", "waf"), Package("c", "waf", large=True)]
    text = page(listed, {"a": record, "b": {"unready": "no | source"}})
    assert "| a 1 | make | sequence | 0 | 2 | 1 | 1 | 0 → 2 | 1 |\n" in text
    assert "| b | waf | not run: no \\| source | | | | | | |\n" in text
    assert "| c | waf | not run: large | | | | | | |\n" in text
    assert text.endswith("### a\n\n- `verify: p: HA003`\n\nIt is so.\n")


def test_every_build_system_is_there() -> None:
    listed = packages()
    assert len({one.name for one in listed}) == len(listed)
    assert sum(not one.large for one in listed) >= 40
    assert {one.system for one in listed} == {
        "autotools", "CMake", "Meson", "SCons", "waf", "qmake", "Cargo", "Go with cgo", "Python extension",
        "Java with JNI", "make",
    }  # fmt: skip
