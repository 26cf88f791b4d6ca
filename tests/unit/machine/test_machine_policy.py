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
#: Content, then the code of the diagnosis, and the facts behind the file.
BAD = [
    (b"max = 512", "policy.bad-value", {"line": 1, "key": "max", "example": 'max = "512M"'}),
    (b'\nmax = "1 elephant"', "policy.bad-value", {"line": 2, "key": "max", "example": 'max = "512M"'}),
    (b'max = "101%"', "policy.bad-value", {"line": 1, "key": "max", "example": 'max = "512M"'}),
    (b'max = "nan%"', "policy.bad-value", {"line": 1, "key": "max", "example": 'max = "512M"'}),
    (b"least = -1", "policy.bad-value", {"line": 1, "key": "least", "example": "least = 1.0"}),
    (b"least = nan", "policy.bad-value", {"line": 1, "key": "least", "example": "least = 1.0"}),
    (b"least = true", "policy.bad-value", {"line": 1, "key": "least", "example": "least = 1.0"}),
    (b"fix = 1", "policy.bad-value", {"line": 1, "key": "fix", "example": "fix = true"}),
    (b"fix = true\ninclude = [1]", "policy.bad-value", {"line": 2, "key": "include"}),
    (b'exclude = [""]', "policy.bad-value", {"line": 1, "key": "exclude"}),
    (b"exclude = [" + b'"a",' * 1001 + b"]", "policy.bad-value", {"line": 1, "key": "exclude"}),
    (b"a = 1\nfixx = true", "policy.unknown-key", {"line": 1, "key": "a", "meant": ""}),
    (b"fixx = true", "policy.unknown-key", {"line": 1, "key": "fixx", "meant": "fix"}),
    (b"fix = true\n[least]\nx = 1", "policy.bad-value", {"line": 2, "key": "least"}),
    (b"fix = true\nmax = = 1\nleast = 1", "policy.not-toml", {"line": 2}),
    (b"fix = true\ninclude = [\n'a',\n", "policy.not-toml", {"line": 2}),
    (b"\xff\xfe", "policy.not-toml", {"line": 1}),
    (b"a = " + b"[" * 10_000, "policy.not-toml", {"line": 1}),
    (b"#" * 70_000, "policy.too-large", {"most": 65536}),
]


@pytest.mark.parametrize(("data", "wanted"), GOOD.items())
def test_what_a_policy_says(data: bytes, wanted: Policy) -> None:
    assert machine_policy.parsed(data) == wanted


@pytest.mark.parametrize(("data", "code", "facts"), BAD)
def test_a_policy_with_an_error_names_its_line(data: bytes, code: str, facts: dict[str, int | str]) -> None:
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
