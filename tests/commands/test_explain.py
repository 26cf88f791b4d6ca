"""`hugealign explain`: the pages that it prints name commands and options that exist."""

import re

import pytest

from hugealign.cli import COMMANDS
from hugealign.diagnosis import catalogue
from hugealign.verification import pages
from hugealign.verification.rules import RULES
from tests.support import HUGEALIGN, run


@pytest.fixture(scope="module")
def helps() -> dict[str, str]:
    return {command: run(HUGEALIGN, command, "--help", check=True).stdout for command in COMMANDS} | {
        "": run(HUGEALIGN, "--help", check=True).stdout
    }


@pytest.mark.parametrize("code", [*RULES, *catalogue.codes()])
def test_commands_exist(code: str, helps: dict[str, str]) -> None:
    page = pages.page(code) if code in RULES else catalogue.page(code)
    lines = [line for line in page.splitlines() if line.startswith("    ")]
    for line in (*lines, RULES[code].fix if code in RULES else ""):
        for command, rest in re.findall(r"\bhugealign ([a-z-]+)([^\"&;|()]*)", line):
            assert command in helps or command in ("gcc", "clang"), line
            for option in re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest):
                assert option in helps[command], line
        for variable in re.findall(r"HUGEALIGN_[A-Z_]+", line):
            assert variable in helps[""], line


def test_explain_lists_all_and_prints_one() -> None:
    listed = run(HUGEALIGN, "explain", check=True).stdout
    assert [line.split()[0] for line in listed.splitlines()] == [*RULES, *catalogue.codes()]
    assert run(HUGEALIGN, "explain", "ha004", check=True).stdout == pages.page("HA004") + "\n"
    assert run(HUGEALIGN, "explain", "HA999").returncode == 2
