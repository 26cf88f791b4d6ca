"""The configuration of `verify`: what is found, what counts, and what is said of a wrong one."""

import os
from pathlib import Path
from typing import Any

import pytest

from hugealign.errors import UsageError
from hugealign.verification import configuration
from hugealign.verification.selection import Selection
from tests.unit.verification.test_formats import report

EXCEPTION = '[[verify.exceptions]]\nfiles = ["{}"]\nignore = ["HA001"]\nreason = "the vendor built it"\n'


def configured(directory: Path, text: str, name: str = "hugealign.toml") -> configuration.Configuration:
    (directory / name).write_text(text)
    return configuration.read(str(directory / name))


def test_an_option_counts_before_the_file_and_the_file_before_the_default(tmp_path: Path) -> None:
    config = configured(tmp_path, '[verify]\nfail-on = "note"\n')
    where = f"{tmp_path}/hugealign.toml: verify.fail-on"
    for key, option, chosen in (
        ("fail-on", "never", ("never", "--fail-on")),
        ("fail-on", None, ("note", where)),
        ("jobs", None, ("error", "--jobs")),
    ):
        assert tuple(config.chosen(key, option, "error")) == chosen


def test_the_nearest_file_upward_is_found(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "hugealign.toml").write_text('[verify]\njobs = "7"\n')
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\nx = 1\n")  # not a word of ours
    assert configuration.find(str(below)).settings["jobs"].value == "7"
    (tmp_path / "a" / "pyproject.toml").write_text('[tool.hugealign.verify]\njobs = "3"\n')
    assert configuration.find(str(below)).settings["jobs"].value == "3"
    (tmp_path / "a" / "hugealign.toml").write_text("")  # an empty one ends the search
    assert configuration.find(str(below)).settings == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_strangers_file_is_not_obeyed(tmp_path: Path) -> None:
    (tmp_path / "hugealign.toml").write_text('[verify]\nfail-on = "never"\n')
    (tmp_path / "own").mkdir()
    os.chown(tmp_path / "hugealign.toml", 12345, -1)
    with pytest.raises(UsageError, match=r"belongs to another user; name it, or /dev/null, by --config"):
        configuration.find(str(tmp_path / "own"))
    os.chown(tmp_path / "own", 12345, -1)  # as in a container that runs as root on a user's checkout
    assert configuration.find(str(tmp_path / "own")).settings["fail-on"].value == "never"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_the_owner_is_that_of_the_very_file_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in /tmp, where a stranger has a link to a file of root's, and exchanges it when we have looked."""
    (tmp_path / "roots").write_text("")
    (tmp_path / "strangers").write_text('[verify]\nfail-on = "never"\n')
    os.chown(tmp_path / "strangers", 12345, -1)
    (tmp_path / "hugealign.toml").symlink_to("roots")
    look = os.stat

    def exchanging(path: str, **more: Any) -> os.stat_result:
        result = look(path, **more)
        if path == str(tmp_path / "hugealign.toml"):
            (tmp_path / "strangers").replace(path)
            monkeypatch.setattr(os, "stat", look)
        return result

    monkeypatch.setattr(os, "stat", exchanging)
    with pytest.raises(UsageError, match="belongs to another user"):
        configuration.find(str(tmp_path))


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("lib*.so", "{}/usr/lib/libx.so", True),
        ("lib*.so", "{}/usr/lib/tool", False),
        ("usr/lib/*", "{}/usr/lib/libx.so", True),  # below the file's directory
        ("usr/lib/*", "{}/opt/usr/lib/libx.so", False),
        ("opt/tool", "pool/x.deb!opt/tool", True),
        ("tool", "pool/x.deb!opt/tool", True),
        ("tool", "pool/tool.deb!opt/x", False),
    ],
)
def test_exceptions_cover_files_by_pattern(pattern: str, path: str, covered: bool, tmp_path: Path) -> None:
    config = configured(tmp_path, EXCEPTION.format(pattern))
    assert config.exceptions[0].covers(path.format(tmp_path)) == covered


def test_an_exception_accepts_its_rules_and_no_others(tmp_path: Path) -> None:
    selection = Selection(exceptions=configured(tmp_path, EXCEPTION.format("x")).exceptions)
    judged = selection.judge(report("x", "HA001", "HA003"))
    assert [diagnosis.code for diagnosis in judged.diagnoses] == ["HA003"]
    assert [(item.diagnosis.code, item.reason) for item in judged.accepted] == [("HA001", "the vendor built it")]
    assert not selection.judge(report("y", "HA001")).accepted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[verfy]\n", " verfy: no such key; did you mean verify?"),
        ('[verify]\njobs = "1"\nfail_on = "note"\n', " verify.fail_on: no such key; did you mean fail-on?"),
        ("[verify]\njobs = 1\n", " verify.jobs: not a string"),
        ('[verify]\nselect = "HA001"\n', " verify.select: not a list of strings"),
        ("[verify]\nselect = [1]\n", " verify.select: not a list of strings"),
        ('[verify]\nallow-empty = "yes"\n', " verify.allow-empty: not true or false"),
        ("verify = 1\n", " verify: not a table"),
        ("[verify]\nexceptions = 1\n", " verify.exceptions: not a list of tables"),
        (
            EXCEPTION.format("a") + EXCEPTION.format("b").replace("reason", "why"),
            " verify.exceptions[2]: why: no such key",
        ),
        (
            '[[verify.exceptions]]\nfiles = ["a"]\nignore = ["HA001"]\n',
            " verify.exceptions[1]: an exception needs reason, a string",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_key(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        configured(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/hugealign.toml:{message}")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[verify\n", "line 1"),
        (b"\xff", "utf-8"),
        (b'a."\\u001b[31m" = 1\nb', "hugealign.toml: "),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"#" * ((1 << 18) + 1), "larger than 256 KiB"),
    ],
)
def test_what_is_no_configuration(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "hugealign.toml").write_bytes(data)
    with pytest.raises(UsageError) as caught:
        configuration.find(str(tmp_path))
    assert message in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_a_large_project_that_says_nothing_about_us_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.other]\n" + "x" * 500_000)
    assert configuration.find(str(tmp_path)) == configuration.NONE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[project]\nname = 'x'\n", "pyproject.toml: no [tool.hugealign] in it"),
        ("tool = 3\n", "pyproject.toml: no [tool.hugealign] in it"),
        ("[tool]\nhugealign = 3\n", "pyproject.toml: tool.hugealign: not a table"),
        ("[tool.hugealign]\nverify = 3\n", "pyproject.toml: verify: not a table"),
    ],
)
def test_a_pyproject_that_is_named_has_to_have_our_table(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        configuration.read(str(path))
    assert str(caught.value) == f"{tmp_path}/{message}"
