"""Where podman looks for hooks, and where what ours says goes."""

import json
import os
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from hugealign.services import oci
from hugealign.system import hooks

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("texts", "places"),
    [
        ([], [hooks.DEFAULT]),
        (['[engine]\nhooks_dir = ["/a", "/b", "/a"]\n'], ["/a", "/b"]),
        (['[engine]\nhooks_dir = ["/a"]\n', '[engine]\nhooks_dir = ["/b"]\n'], ["/b"]),
        (['[engine]\nhooks_dir = ["/a", {append=true}]\n'], [hooks.DEFAULT, "/a"]),
        (['[engine]\nhooks_dir = ["/a"]\n', "[engine\n", "[engine]\nhooks_dir = 1\n", "engine = 1\n"], ["/a"]),
        (['[engine]\nhooks_dir = [1, "relative"]\n'], []),
    ],
)
def test_where_podman_looks(tmp_path: Path, texts: list[str], places: list[str]) -> None:
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.conf").write_text(text)
    assert hooks.looked_in([str(tmp_path / "none.conf"), str(tmp_path / "*.conf")]) == places


def test_the_example_is_what_is_installed() -> None:
    example = json.loads((ROOT / "examples/containers/hugealign.json").read_text())
    assert json.loads(oci.hook("/usr/bin/hugealign")) == example
    assert hooks.is_ours(example["hook"])


@pytest.mark.parametrize("hook", [None, {}, {"args": ["oci-hook"]}, {"path": "/bin/other", "args": ["oci-hook"]}])
def test_other_hooks_are_not_ours(hook: object) -> None:
    assert not hooks.is_ours(hook)


@pytest.mark.parametrize(
    ("state", "command", "started"),
    [(True, True, True), (False, True, False), (True, False, False)],
)
def test_the_hook_for_all_containers_never_keeps_one_from_starting(
    tmp_path: Path, state: bool, command: bool, started: bool
) -> None:
    """Nor does it start anything where hugealign is gone, or for users who may not see what it has chosen."""
    program, known = tmp_path / "huge align", tmp_path / "machine.json"
    if command:
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/words\ncat >>{tmp_path}/words\nexit 3\n')
        program.chmod(0o755)
    if state:
        known.touch()
    document = json.loads(oci.machine_hook(str(program), str(known), fix=True))
    plain = json.loads(oci.machine_hook(str(program), str(known), fix=False))["hook"]["args"]
    assert document["hook"]["args"] == [*plain, "--fix"]
    assert (document["when"], document["stages"]) == ({"always": True}, ["createRuntime"])
    hook = document["hook"]
    done = subprocess.run(hook["args"], executable=hook["path"], input=b"state", check=False, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / "words").exists() == started
    if started:
        assert (tmp_path / "words").read_text() == "oci-hook\n--all\n--fix\nstate"
    assert not hooks.is_ours(hook)  # it does not serve annotations


def test_what_the_hook_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reaches the log and a file that only root reads; a log that is missing or full delays nothing."""
    log, kept = str(tmp_path / "log"), tmp_path / "said"
    monkeypatch.setattr(hooks, "_LOG", log)
    monkeypatch.setattr(hooks, "_SAID", str(kept))
    hooks.say("before there is a log")
    assert hooks.said() == "before there is a log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader:
        reader.bind(log)
        hooks.say("short")
        assert reader.recv(1000) == f"<28>hugealign[{os.getpid()}]: short".encode()
        for _ in range(2000):  # more than it holds (net.unix.max_dgram_qlen)
            hooks.say("last")
    assert (hooks.said(), stat.S_IMODE(kept.stat().st_mode)) == ("last", 0o600)
    hooks.forget()
    assert hooks.said() == ""
    kept.symlink_to(tmp_path / "others")
    hooks.say("through a link")
    assert not (tmp_path / "others").exists()
