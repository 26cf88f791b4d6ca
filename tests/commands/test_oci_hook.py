"""`hugealign oci-hook` never keeps a container from starting, whatever an engine gives it."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support import HUGEALIGN, run, worded

ROOT = Path(__file__).parents[2]


def hook(bundle: Path, config: dict[str, object]) -> subprocess.CompletedProcess[bytes]:
    """Give the hook a container of our own process, whose bundle has *config*."""
    (bundle / "config.json").write_text(json.dumps(config))
    state = json.dumps({"bundle": str(bundle), "pid": os.getpid()}).encode()
    return subprocess.run([HUGEALIGN, "oci-hook"], input=state, check=False, capture_output=True)


@pytest.mark.parametrize(
    "state",
    [b"", b"[]", b"{", b'{"bundle": 1}', b'{"bundle": "/no", "pid": 1}', b'{"bundle": "/tmp\\u0000"}', b"[" * 100_000],
)
def test_whatever_comes_the_status_is_0(state: bytes) -> None:
    done = subprocess.run([HUGEALIGN, "oci-hook"], input=state, check=False, capture_output=True)
    assert done.returncode == 0
    assert done.stdout == b""
    assert done.stderr.count(b"\n") == 1
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("state", "part"),
    [
        (b"[]", "state"),
        (b"{}", "bundle"),
        (b'{"bundle": "/tmp", "pid": "1"}', "pid"),
        (b'{"bundle": "/no", "pid": 1}', "config.json"),
    ],
)
def test_what_an_engine_does_not_describe(state: bytes, part: str) -> None:
    error = "ENOENT" if part == "config.json" else ""
    done = subprocess.run([HUGEALIGN, "oci-hook"], input=state, check=False, capture_output=True)
    expected = worded("container.description", part=part, error=error)
    assert done.stderr.decode() == f"hugealign: oci-hook: {expected}\n"


def test_a_process_of_the_hook_that_is_killed() -> None:
    code = (
        "import os, sys\nfrom hugealign import cli\nfrom hugealign.services import oci\n"
        "oci.read_state = lambda: os.kill(os.getpid(), 9)\nsys.exit(cli.main(['oci-hook']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True)
    expected = worded("container.hook-ended", status=-9)
    assert (done.returncode, done.stderr.decode()) == (0, f"hugealign: oci-hook: {expected}\n")


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
    done = hook(tmp_path, asked | config)
    assert (done.returncode, done.stdout, b"Traceback" in done.stderr) == (0, b"", False)


def test_a_pipe_in_place_of_the_configuration_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    state = json.dumps({"bundle": str(tmp_path), "pid": os.getpid()}).encode()
    done = subprocess.run([HUGEALIGN, "oci-hook"], input=state, check=False, capture_output=True)
    assert (done.returncode, done.stderr.count(b"\n")) == (0, 1)


def test_what_an_image_has_in_place_of_its_program_is_not_opened(tmp_path: Path) -> None:
    """A process that waits until a process reads from the pipe goes on waiting."""
    pipe = tmp_path / "program"
    os.mkfifo(pipe, 0o777)
    read = threading.Event()

    def write() -> None:
        os.close(os.open(pipe, os.O_WRONLY))
        read.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        process = {"args": ["/program"], "cwd": "/"}
        asked = {"annotations": {"hugealign.text": "auto"}, "root": {"path": "."}, "process": process}
        assert hook(tmp_path, asked).returncode == 0
        assert not read.is_set()
    finally:
        os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
        writer.join()


def test_the_time_is_bounded_from_the_first_byte() -> None:
    """The engine's own pipe may stay open for ever."""
    code = (
        "import sys\nfrom hugealign import cli\nfrom hugealign.services import oci\n"
        "oci.SECONDS = 1.0\nsys.exit(cli.main(['oci-hook']))"
    )
    reading, writing = os.pipe()
    try:
        done = subprocess.run([sys.executable, "-c", code], stdin=reading, cwd=ROOT, check=False, capture_output=True)
    finally:
        os.close(reading)
        os.close(writing)
    expected = worded("container.no-time", seconds=1)
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.decode() == f"hugealign: oci-hook: {expected}\n"


def test_help() -> None:
    assert "createRuntime" in run(HUGEALIGN, "help", "oci-hook").stdout
