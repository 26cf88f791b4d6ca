"""`hugealign run` starts with few modules, and starts the command whatever happens."""

import argparse
import errno
import os
import subprocess
import sys
from typing import NoReturn

import pytest

from hugealign.cli import launching
from hugealign.run import launch
from tests.support import ROOT, worded


def test_a_start_loads_nothing_slow() -> None:
    """Each of them takes longer than what `run` does with a small program."""
    code = "import sys; from hugealign.run import launch; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-ISc", f"import sys; sys.path.append({str(ROOT)!r}); {code}"], check=True,
                          capture_output=True, text=True)  # fmt: skip
    slow = {"argparse", "dataclasses", "inspect", "json", "re", "shutil", "subprocess", "typing"}
    assert not slow & set(done.stdout.split())


def test_a_system_call_that_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The command runs as it is, and one line says why."""

    def fail(*_: object) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(launch, "prepare", fail)
    parser = argparse.ArgumentParser()
    launching.configure(parser)
    program, _ = launching.prepared("server", parser.parse_args(["server"]))
    expected = f"hugealign: server: {worded('program.unchanged', error='EMFILE')}\n"
    assert (program, capsys.readouterr().err) == ("", expected)
