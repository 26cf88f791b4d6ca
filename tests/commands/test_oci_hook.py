"""`hugealign oci-hook` never keeps a container from starting, whatever an engine gives it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support import HUGEALIGN, run


@pytest.mark.parametrize(
    "state",
    [b"", b"[]", b"{", b'{"bundle": 1}', b'{"bundle": "/no", "pid": 1}', b'{"bundle": "/tmp\\u0000"}', b"[" * 100_000],
)
def test_whatever_comes_the_status_is_0(state: bytes) -> None:
    done = subprocess.run([HUGEALIGN, "oci-hook"], input=state, check=False, capture_output=True, timeout=30)
    assert done.returncode == 0
    assert done.stdout == b""
    assert done.stderr.count(b"\n") == 1
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    "config",
    [
        {"process": {"args": None, "env": 7}},
        {"process": []},
        {"process": {"args": ["a\0b", 1, "true"], "env": ["PATH=\0", {}], "cwd": 3}},
        {"root": {"path": "no/such"}},
        {"root": {"path": "\ud800"}},
        {"annotations": {"hugealign.text": "/\ud800:/no"}},
        {"process": {"args": ["\ud800"], "cwd": "\ud800"}},
    ],
)
def test_whatever_the_configuration_holds_the_status_is_0(config: dict[str, object], tmp_path: Path) -> None:
    asked = {"annotations": {"hugealign.text": "auto"}, "root": {"path": str(tmp_path)}}
    (tmp_path / "config.json").write_text(json.dumps(asked | config))
    state = json.dumps({"bundle": str(tmp_path), "pid": os.getpid()}).encode()
    done = subprocess.run([HUGEALIGN, "oci-hook"], input=state, check=False, capture_output=True, timeout=30)
    assert (done.returncode, done.stdout, b"Traceback" in done.stderr) == (0, b"", False)


def test_help() -> None:
    assert "createRuntime" in run(HUGEALIGN, "help", "oci-hook").stdout
