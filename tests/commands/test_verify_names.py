"""Names that try to break out of a report, of files that are there."""

from pathlib import Path

import pytest

from tests.link.bulk import MAIN, bulk_object
from tests.support import HUGEALIGN, run, worded
from tests.unit.verification.test_formats import FORMS, NAMES, no_commands


@pytest.mark.parametrize("form", FORMS)
def test_hostile_names_of_real_files(form: str, tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_text("no program")
    option = "--json" if form == "json" else f"--format={form}"
    done = run(HUGEALIGN, "verify", option, "--", *NAMES, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (3, "")
    read, shown = FORMS[form]
    assert read(done.stdout) == [shown(name) for name in NAMES]


def test_no_key_of_a_configuration_is_a_command_to_githubs_runner(tmp_path: Path) -> None:
    """It shows standard error as well, and the configuration is part of what a pull request may change."""
    (tmp_path / "hugealign.toml").write_text('[verify]\n"##[add-mask]x" = 1\n')
    done = run(HUGEALIGN, "verify", "/bin/sh", cwd=tmp_path)
    assert done.returncode == 2
    assert r"##\x5badd-mask]x: no such key" in done.stderr
    no_commands(done.stderr)


def test_no_name_is_a_command_to_githubs_runner_in_other_commands(built: Path, tmp_path: Path) -> None:
    for name in ("::error::x", "##[error]x", " ::stop-commands::x"):
        (tmp_path / name).symlink_to(built)
        for words in (["fix", "--dry-run"], ["warm", "--check"]):
            done = run(HUGEALIGN, *words, "--", name, f"{name} missing", cwd=tmp_path)
            assert f"missing: {worded('file.unreadable', error='ENOENT')}" in done.stderr
            assert "x: " in done.stdout
            no_commands(done.stdout + done.stderr)


def test_no_name_of_a_function_is_a_command_to_githubs_runner(tmp_path: Path) -> None:
    for name, functions in (("a", "::error::x\nx##[error]y\n"), ("b", "")):
        (tmp_path / name).write_text(f"# hugealign.order/1\n# windows: 1\n{functions}main\n")
    done = run(HUGEALIGN, "diff", "a", "b", cwd=tmp_path)
    assert "lost 2\n" in done.stdout
    no_commands(done.stdout)
    assert '"::error::x"' in run(HUGEALIGN, "diff", "--json", "a", "b", cwd=tmp_path).stdout


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "main.c").write_text(MAIN)
    run("gcc", "main.c", bulk_object(tmp_path), "-o", "program", cwd=tmp_path, check=True)
    return tmp_path / "program"
