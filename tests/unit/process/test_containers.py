"""What a container requests of the hook, seen from the engine's process beside it."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hugealign.process import containers

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
