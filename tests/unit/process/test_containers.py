"""What a container requests of the hook, seen from the engine's process beside it."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hugealign.process import containers, groups

HOOKS = {"createRuntime": [{"path": "/usr/bin/hugealign", "args": ["hugealign", "oci-hook"]}]}
#: What conmon is to podman, and the shim to containerd: the parent of the container's first process.
ENGINE = "#!/bin/sh\nsleep 60 &\necho $!\nwait\n"


@contextmanager
def engine(directory: Path, name: str, bundle: Path, *options: str) -> Iterator[int]:
    """Yield the PID of a process whose parent has the *name* of an engine's."""
    program = directory / name
    program.write_text(ENGINE)
    program.chmod(0o755)
    with subprocess.Popen([program, *options], cwd=bundle, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout
        try:
            yield int(child.stdout.readline())
        finally:
            os.killpg(child.pid, 9)


@pytest.mark.parametrize("name", ["conmon", "containerd-shim-runc-v2"])
@pytest.mark.parametrize(
    ("configuration", "code"),
    [
        ({"annotations": {"hugealign.text": "auto"}}, "container.no-hook"),
        ({"annotations": {"hugealign.text": "auto"}, "hooks": HOOKS}, "container.hook-failed"),
        (
            {"annotations": {"hugealign.text": "auto"}, "hooks": {"createRuntime": {}, "prestart": [1]}},
            "container.no-hook",
        ),
        ({"annotations": {"hugealign.text": "off"}}, ""),
        ({"annotations": {"other": "auto"}, "hooks": HOOKS}, ""),
        ({"annotations": ["hugealign.text"]}, ""),
        ([], ""),
    ],
)
def test_what_an_engine_has_not_started(tmp_path: Path, name: str, configuration: object, code: str) -> None:
    bundle = tmp_path / "bundles" / "one"
    bundle.mkdir(parents=True)
    (bundle / "config.json").write_text(json.dumps(configuration))
    with engine(tmp_path, name, bundle, *(("-c", "x", "-b", str(bundle)) if name == "conmon" else ())) as pid:
        missed = containers.missed(pid)
        assert (missed.code if missed else "") == code
        found = [one.code for one in containers.unhooked() if one.subject == str(bundle)]
        assert found == [code] * (code == "container.no-hook")


def test_a_bundle_that_is_gone(tmp_path: Path) -> None:
    with engine(tmp_path, "conmon", tmp_path, "--bundle", str(tmp_path / "gone")) as pid:
        assert containers.missed(pid) is None
    with engine(tmp_path, "conmon", tmp_path, "-b") as pid:
        assert containers.missed(pid) is None


def test_what_is_in_no_container() -> None:
    assert containers.missed(os.getpid()) is None
    assert containers.missed(1) is None


@pytest.mark.parametrize("name", ["conmon", "containerd-shim-runc-v2"])
@pytest.mark.parametrize(
    ("configuration", "code"),
    [
        ({"process": {"user": {"uid": 1000}}}, ""),
        ({"process": {"user": {"uid": 0}}, "root": {"readonly": True}}, ""),
        ({"process": {"user": {"uid": 0}}, "root": {"readonly": False}}, "policy.may-replace"),
        ({"process": {"user": {"uid": "1000"}}, "root": {"readonly": 1}}, "policy.may-replace"),
        ({"process": {"user": [1000]}, "root": []}, "policy.may-replace"),
        ({"process": []}, "policy.may-replace"),
        ({"annotations": {"hugealign.text": "off"}, "process": {"user": {"uid": 1000}}}, "policy.container"),
    ],
)
def test_why_the_machine_leaves_a_container(tmp_path: Path, name: str, configuration: object, code: str) -> None:
    """An engine that reads hooks tells what the container may do; the other one reads none."""
    bundle = tmp_path / "bundles" / "one"
    bundle.mkdir(parents=True)
    (bundle / "config.json").write_text(json.dumps(configuration))
    with engine(tmp_path, name, bundle, *(("-b", str(bundle)) if name == "conmon" else ())) as pid:
        left = containers._uncovered(pid)
        assert (left.code if left else "") == (code if name == "conmon" else "policy.container")
        assert containers.origin(pid) is None  # it has our root


@pytest.mark.parametrize(
    ("group", "code", "facts"),
    [
        ("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{}.scope", "container.rootless", {}),
        ("/system.slice/docker-{}.scope", "policy.container", {"engine": "Docker"}),
        ("/machine.slice/libpod-{}.scope", "policy.container", {}),
    ],
)
def test_engines_that_start_no_hook_as_root(
    group: str, code: str, facts: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's engine is not ours; Docker reads no hooks; the last one has ended."""
    monkeypatch.setattr(groups, "of_process", lambda _: f"0::{group.format('0123456789abcdef' * 4)}\n")
    left = containers._uncovered(os.getpid())
    assert left
    assert (left.code, left.facts) == (code, facts)


def test_an_engine_that_names_no_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of that name where we happen to be describes no container."""
    (tmp_path / "config.json").write_text(json.dumps({"process": {"user": {"uid": 1000}}}))
    monkeypatch.chdir(tmp_path)
    with engine(tmp_path, "conmon", tmp_path) as pid:
        left = containers._uncovered(pid)
        assert left
        assert left.code == "policy.container"


def test_a_process_that_calls_itself_an_engine(tmp_path: Path) -> None:
    """In a container it can name any bundle, and has mounts of its own."""
    if os.geteuid():
        pytest.skip("root is needed to unshare mounts")
    bundle = tmp_path / "bundles" / "one"
    bundle.mkdir(parents=True)
    (bundle / "config.json").write_text(json.dumps({"process": {"user": {"uid": 1000}}}))
    (tmp_path / "conmon").write_text(ENGINE)
    (tmp_path / "conmon").chmod(0o755)
    words = ["unshare", "--mount", str(tmp_path / "conmon"), "-b", str(bundle)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout
        left = containers._uncovered(int(child.stdout.readline()))
        os.killpg(child.pid, 9)
    assert left
    assert left.code == "policy.container"
