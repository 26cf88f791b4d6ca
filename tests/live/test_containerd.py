"""`hugealign oci-hook` under containerd and runc: the hook is where `base_runtime_spec` puts it.

Here `ctr` gives containerd the specification; for pods containerd's CRI does (docs/guides/containers.md).
"""

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live import filesystems
from tests.live.podman import huge_kib
from tests.live.programs import ROOT, WINDOW, WINDOWS, Programs
from tests.support import HUGEALIGN, MissingError, need

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(300)]
ALL = WINDOWS * WINDOW >> 10
SERVER = "/usr/local/bin/server"
_CONFIG = """\
version = 2
root = "{place}/root"
state = "{place}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "{place}/sock"
[ttrpc]
address = "{place}/sock.ttrpc"
"""


class Containerd:
    """A containerd of our own at *place*."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "config").write_text(_CONFIG.format(place=place), encoding="utf-8")

    def ctr(self, *words: object) -> str:
        """Return what ctr says.  Raises MissingError."""
        command = ["ctr", "--address", str(self.place / "sock"), *map(str, words)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise MissingError(f"ctr: {done.stderr.strip()[-300:]}")
        return done.stdout

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Run it meanwhile."""
        log = (self.place / "log").open("wb")
        with log, subprocess.Popen(["containerd", "-c", self.place / "config"], stdout=log, stderr=log) as child:
            try:
                for _ in range(100):
                    if (self.place / "sock").exists():
                        break
                    time.sleep(0.1)
                yield
            finally:
                child.terminate()

    @contextlib.contextmanager
    def running(self, spec: dict[str, Any]) -> Iterator[int]:
        """Run the container of *spec*; yield the PID of its process."""
        path = self.place / "spec.json"
        path.write_text(json.dumps(spec), encoding="utf-8")
        self.ctr("run", "--detach", "--config", path, "server")
        try:
            (line,) = (line for line in self.ctr("task", "list").splitlines() if line.startswith("server "))
            pid = int(line.split()[1])
            time.sleep(0.5)  # it touches its text
            yield pid
        finally:
            self.ctr("task", "kill", "--signal", "KILL", "server")
            time.sleep(0.5)
            self.ctr("task", "delete", "server")
            self.ctr("container", "delete", "server")


@pytest.fixture(scope="module")
def place(built: Programs) -> Iterator[Path]:
    """Where containerd keeps what it has, with the merged directories of an overlay on ext4, as its images are."""
    if os.geteuid():
        pytest.skip("root is needed")
    need("containerd", "ctr", "runc")
    work = built.directory / "containerd"
    work.mkdir()
    with filesystems.mounted("ext4", work, size=1 << 30) as at, contextlib.ExitStack() as stack:
        for name in ("lower", "upper", "work", "merged"):
            (at / name).mkdir()
        image = at / "lower"
        for name in ("proc", "sys", "dev", "usr/local/bin"):
            (image / name).mkdir(parents=True)
        shutil.copy(built.good, image / SERVER.lstrip("/"))
        listed = subprocess.run(["ldd", built.good], capture_output=True, text=True, check=True).stdout
        libraries = [word for word in listed.split() if word.startswith("/")]
        subprocess.run(["cp", "--parents", *libraries, image], check=True)
        options = f"lowerdir={image},upperdir={at}/upper,workdir={at}/work"
        subprocess.run(["mount", "-t", "overlay", "-o", options, "none", at / "merged"], check=True)
        stack.callback(lambda: subprocess.run(["umount", "--lazy", at / "merged"], check=False))
        yield at


def test_hook_in_the_base_specification(place: Path) -> None:
    """With the annotation the program runs from a huge copy; without it, as before."""
    store = Path(f"/run/hugealign-test-{os.getpid()}")
    hook = json.loads((ROOT / "examples/containers/hugealign.json").read_text(encoding="utf-8"))["hook"]
    hook |= {"path": str(HUGEALIGN), "args": [*hook["args"], "--store", str(store)]}
    spec = json.loads(subprocess.run(["ctr", "oci", "spec"], capture_output=True, check=True).stdout)
    spec["root"]["path"] = str(place / "merged")
    spec["process"] |= {"args": [SERVER, "5"], "env": ["PATH=/usr/local/bin:/usr/bin"]}
    spec["linux"]["cgroupsPath"] = f"/hugealign-{os.getpid()}"
    spec["hooks"] = {"createRuntime": [hook]}
    containerd = Containerd(place)
    try:
        with containerd.serving():
            for annotations, huge in (({}, 0), ({"hugealign.text": "auto"}, ALL)):
                with containerd.running(spec | {"annotations": annotations}) as pid:
                    assert huge_kib(pid) == huge, annotations
                    assert os.readlink(f"/proc/{pid}/exe") == SERVER
    finally:
        subprocess.run(["umount", "--lazy", store], check=False, capture_output=True)
        if store.exists():
            store.rmdir()
