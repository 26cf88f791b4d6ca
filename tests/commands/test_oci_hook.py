"""`hugealign oci-hook` never keeps a container from starting, whatever an engine gives it."""

import subprocess

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


def test_help() -> None:
    assert "createRuntime" in run(HUGEALIGN, "help", "oci-hook").stdout
