"""The policy for the whole machine: what a file may say, and which line is named if it says something else."""

import os
from pathlib import Path

import pytest

from hugealign.machine import machine_policy
from hugealign.machine.machine_policy import Policy, PolicyError

_MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

GOOD = {
    b"": Policy(),
    b'max = "512M"': Policy(max=512 << 20),
    b'max = "3%"': Policy(max=int(_MEMORY * 0.03)),
    b"least = 2": Policy(least=2.0),
    b'include = ["mariadb.service", "/usr/bin/clang*"]\nexclude = []': Policy(
        include=("mariadb.service", "/usr/bin/clang*")
    ),
    b"# only this\nfix = true\neverything = true\n": Policy(fix=True, everything=True),
}
#: The code of the diagnosis, the content, and the facts behind the file.
BAD = [
    ("policy.bad-value", b"max = 512", {"line": 1, "key": "max", "example": 'max = "512M"'}),
    ("policy.bad-value", b'\nmax = "1 elephant"', {"line": 2, "key": "max", "example": 'max = "512M"'}),
    ("policy.bad-value", b'max = "101%"', {"line": 1, "key": "max", "example": 'max = "512M"'}),
    ("policy.bad-value", b'max = "nan%"', {"line": 1, "key": "max", "example": 'max = "512M"'}),
    ("policy.bad-value", b"least = -1", {"line": 1, "key": "least", "example": "least = 1.0"}),
    ("policy.bad-value", b"least = nan", {"line": 1, "key": "least", "example": "least = 1.0"}),
    ("policy.bad-value", b"least = true", {"line": 1, "key": "least", "example": "least = 1.0"}),
    ("policy.bad-value", b"fix = 1", {"line": 1, "key": "fix", "example": "fix = true"}),
    ("policy.bad-value", b"fix = true\ninclude = [1]", {"line": 2, "key": "include"}),
    ("policy.bad-value", b'exclude = [""]', {"line": 1, "key": "exclude"}),
    ("policy.bad-value", b"exclude = [" + b'"a",' * 1001 + b"]", {"line": 1, "key": "exclude"}),
    ("policy.unknown-key", b"a = 1\nfixx = true", {"line": 1, "key": "a", "meant": ""}),
    ("policy.unknown-key", b"fixx = true", {"line": 1, "key": "fixx", "meant": "fix"}),
    ("policy.bad-value", b"fix = true\n[least]\nx = 1", {"line": 2, "key": "least"}),
    ("policy.not-toml", b"fix = true\nmax = = 1\nleast = 1", {"line": 2}),
    ("policy.not-toml", b"fix = true\ninclude = [\n'a',\n", {"line": 2}),
    ("policy.not-toml", b"\xff\xfe", {"line": 1}),
    ("policy.not-toml", b"a = " + b"[" * 10_000, {"line": 1}),
    ("policy.too-large", b"#" * 70_000, {"most": 65536}),
]


@pytest.mark.parametrize(("data", "wanted"), GOOD.items())
def test_what_a_policy_says(data: bytes, wanted: Policy) -> None:
    assert machine_policy.parsed(data) == wanted


@pytest.mark.parametrize(("code", "data", "facts"), BAD)
def test_a_policy_with_an_error_names_its_line(code: str, data: bytes, facts: dict[str, int | str]) -> None:
    with pytest.raises(PolicyError) as raised:
        machine_policy.parsed(data, "/etc/x.toml")
    said = raised.value.diagnosis
    assert (said.code, raised.value.exit_status) == (code, 2)
    assert {key: said.facts[key] for key in ("file", *facts)} == {"file": "/etc/x.toml", **facts}


def test_a_policy_that_is_no_file(tmp_path: Path) -> None:
    assert machine_policy.read(str(tmp_path / "none")) == Policy()
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(PolicyError) as raised:
            machine_policy.read(str(path))
        assert (raised.value.diagnosis.code, raised.value.diagnosis.subject) == ("file.special", str(path))


def test_the_bound_without_a_policy_is_a_fiftieth_of_memory() -> None:
    assert Policy().bound() == _MEMORY // 50


def test_names_are_patterns() -> None:
    policy = Policy(include=("nginx.service",), exclude=("/opt/*", "user@*.service"))
    assert policy.includes("nginx.service")
    assert not policy.includes("nginx2.service")
    assert policy.excludes("/opt/x/y")
    assert policy.excludes("user@1000.service")
    assert not policy.excludes("/usr/opt/x")


def test_the_units_are_told_what_was_given_and_no_more() -> None:
    policy = Policy(max=1 << 20, least=2.5, fix=True, everything=True)
    assert machine_policy.words(policy, ["max", "least", "fix"]) == ("--max=1048576", "--least=2.5", "--fix")
    assert machine_policy.words(policy, []) == ()
