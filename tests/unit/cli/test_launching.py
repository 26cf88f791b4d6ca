"""The line of `run` before it becomes the command."""

import argparse

import pytest

from hugealign.cli import launching
from hugealign.diagnosis.values import Diagnosis
from hugealign.run import launch
from hugealign.run.launch import IN_PLACE, STAGE, STORE, Launch, TextResult


def test_copies_that_nobody_named_are_not_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    short = TextResult("/short", IN_PLACE, 3, 0, Diagnosis("cache.small-pages", "/short", {}))
    texts = [short, TextResult("/whole", STAGE, 2, 2), TextResult("/other", STORE, 5, 5)]
    monkeypatch.setattr(launch, "prepare", lambda *_: Launch(texts))
    parser = argparse.ArgumentParser()
    launching.configure(parser)
    launching.prepared("command", parser.parse_args(["command"]))
    assert capsys.readouterr().err.startswith("hugealign: 2 of 5 windows huge in 2 files; /short: 0 of 3 windows huge")
