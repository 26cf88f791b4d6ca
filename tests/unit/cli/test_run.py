"""`hugealign run` starts with few modules, and starts the command whatever happens."""

import errno
import os
import subprocess
import sys
from typing import NoReturn

import pytest

from hugealign import cli
from hugealign.cli import launching, run
from hugealign.run import launch
from tests.support import ROOT, worded


def test_a_start_loads_nothing_slow() -> None:
    """Each of them takes longer than what `run` does with a small program."""
    code = "import sys; from hugealign.cli import run; from hugealign.run import launch; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-ISc", f"import sys; sys.path.append({str(ROOT)!r}); {code}"], check=True,
                          capture_output=True, text=True)  # fmt: skip
    slow = {"argparse", "dataclasses", "inspect", "json", "re", "shutil", "subprocess", "typing"}
    assert not slow & set(done.stdout.split())


def test_a_system_call_that_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The command runs as it is, and one line says why."""

    def fail(*_: object) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(launch, "prepare", fail)
    program, _ = launching.prepared("server", None)
    expected = f"hugealign: server: {worded('program.unchanged', error='EMFILE')}\n"
    assert (program, capsys.readouterr().err) == ("", expected)


@pytest.mark.parametrize("words", [["server", "-v", "--libs"], ["--", "server", "-v", "--libs"]])
def test_words_without_an_option_of_ours_need_no_parser(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    """They mean the same as to argparse."""
    started: list[list[str]] = []

    def execute(words: list[str], _environ: object, _program: str) -> int:
        started.append(words)
        return 7

    monkeypatch.setattr(run, "execute", execute)
    assert run.run_without_options(words) == run.run(cli.command_parser("run").parse_args(words)) == 7
    assert started == 2 * [["server", "-v", "--libs"]]
