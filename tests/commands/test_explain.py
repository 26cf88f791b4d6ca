"""`hugealign explain`: the pages that it prints name commands and options that exist."""

import re

import pytest

from hugealign.cli import COMMANDS
from hugealign.diagnosis import catalogue
from tests.support import HUGEALIGN, run


@pytest.fixture(scope="module")
def helps() -> dict[str, str]:
    return {command: run(HUGEALIGN, command, "--help", check=True).stdout for command in COMMANDS} | {
        "": run(HUGEALIGN, "--help", check=True).stdout
    }


@pytest.mark.parametrize("code", catalogue.codes())
def test_commands_exist(code: str, helps: dict[str, str]) -> None:
    lines = [line for line in catalogue.page(code).splitlines() if line.startswith("    ")]
    for line in (*lines, catalogue.row(code).fix):
        for command, rest in re.findall(r"\bhugealign ([a-z-]+)([^\"&;|()]*)", line):
            assert command in helps or command in ("gcc", "clang"), line
            for option in re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest):
                assert option in helps[command], line
        for variable in re.findall(r"HUGEALIGN_[A-Z_]+", line):
            assert variable in helps[""], line


def test_explain_lists_all_and_prints_one() -> None:
    listed = run(HUGEALIGN, "explain", check=True).stdout
    assert [line.split()[0] for line in listed.splitlines() if line[0] == " "] == catalogue.codes()
    for given, code in (("ha004", "HA004"), ("Cache.Dirty", "cache.dirty")):
        assert run(HUGEALIGN, "explain", given, check=True).stdout == catalogue.page(code) + "\n"
    for given, near in (("HA999", "`hugealign explain` lists them"), ("cache.drty", "did you mean cache.dirty?")):
        done = run(HUGEALIGN, "explain", given)
        assert done.returncode == 2
        assert near in done.stderr
