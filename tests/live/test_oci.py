"""`hugealign oci-hook`: podman and crun start images that nobody changed, from huge copies; real overlays on ext4."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import filesystems
from tests.live.booted import debian
from tests.live.filesystems import MissingError
from tests.live.programs import ROOT, WINDOW, WINDOWS, Programs
from tests.support import HUGEALIGN

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(900)]
ALL = WINDOWS * WINDOW >> 10
SERVER = "/usr/local/bin/server"
_UNIFIED = 'umount --recursive --lazy /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec "$@"'


class Engine:
    """Podman with overlays at *place*, whose hooks are this checkout's, and whose store is *store*."""

    def __init__(self, place: Path, store: Path) -> None:
        self.place, self.store = place, store
        self.started: list[int] = []
        hook = json.loads((ROOT / "examples/containers/hugealign.json").read_text())
        hook["hook"] |= {"path": str(HUGEALIGN), "args": ["hugealign", "oci-hook", "-v", "--store", str(store)]}
        (place / "hooks").mkdir()
        (place / "hooks" / "hugealign.json").write_text(json.dumps(hook))

    def podman(self, *words: object) -> str:
        own = ["--root", self.place / "root", "--runroot", self.place / "state", "--storage-driver", "overlay"]
        own += ["--hooks-dir", self.place / "hooks", "--runtime", "crun"]
        command = ["unshare", "--mount", "sh", "-c", _UNIFIED, "sh", "podman", *own, *words]
        done = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise MissingError(f"podman {words[0]}: {done.stderr.strip()[-300:]}")
        return (done.stdout + (done.stderr if words[0] == "logs" else "")).strip()

    def start(self, *words: object) -> tuple[str, int]:
        """Start a container; return its name, and the KiB of its first process's text on huge pages."""
        limits = ("--cgroups=disabled", "--network=none", "--ulimit=nofile=1000:1000", "--ulimit=nproc=1000:1000")
        name = self.podman("run", "--detach", *limits, *words)
        for _ in range(100):
            if "ready" in self.podman("logs", name):
                break
            time.sleep(0.1)
        pid = self.podman("inspect", "--format", "{{.State.Pid}}", name)
        self.started.append(int(pid))
        smaps = Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines()
        return name, sum(int(line.split()[1]) for line in smaps if line.startswith("ShmemPmdMapped:"))

    def copies(self) -> list[str]:
        return [name for name in os.listdir(self.store) if name not in ("path", "lock")]


@pytest.fixture(scope="module")
def engine(built: Programs) -> Iterator[Engine]:
    if os.geteuid():
        pytest.skip("root is needed")
    if missing := [name for name in ("podman", "crun") if not shutil.which(name)]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    work = built.directory / "oci"
    work.mkdir()
    # Here podman runs in a mount namespace of its own each time, so the hook finds the store where it would make it.
    store = Path("/run/hugealign-test-containers")
    store.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "huge=always,mode=0700", "hugealign", store], check=True)
    try:
        with filesystems.mounted("ext4", work, size=4 << 30) as at:
            podman = Engine(at, store)
            podman.podman("import", "--quiet", debian(()), "base")
            name = podman.podman("create", "base", "true")
            podman.podman("cp", built.good, f"{name}:{SERVER}")
            script = work / "entrypoint"
            script.write_text('#!/bin/sh\nexec "$@"\n')
            script.chmod(0o755)
            podman.podman("cp", script, f"{name}:/entrypoint")
            podman.podman("commit", "--quiet", name, "server")
            try:
                yield podman
            finally:
                for pid in podman.started:  # podman leaves some of those behind that it runs without control groups
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                podman.podman("rm", "--all", "--force", "--time=0")
    except MissingError as error:
        pytest.skip(str(error))
    finally:
        subprocess.run(["umount", "--lazy", store], check=False, stderr=subprocess.DEVNULL)
        store.rmdir()


def test_without_the_annotation_nothing_is_done(engine: Engine) -> None:
    _, huge = engine.start("server", SERVER, "5")
    assert huge == 0
    assert engine.copies() == []


def test_an_image_runs_from_one_copy(engine: Engine) -> None:
    """By the command, behind a script, by a path: always the copy of the layer, which is one."""
    annotated = ("--annotation", "hugealign.text=auto")
    for words in (
        (*annotated, "server", SERVER, "5"),
        (*annotated, "--user=65534", "--read-only", "server", "/entrypoint", "server", "5"),
        ("--annotation", f"hugealign.text=/bin/no:{SERVER}", "server", SERVER, "5"),
    ):
        name, huge = engine.start(*words)
        assert huge == ALL, words
        pid = engine.podman("inspect", "--format", "{{.State.Pid}}", name)
        assert os.readlink(f"/proc/{pid}/exe") == SERVER
        assert engine.podman("exec", "--user=0", name, "sh", "-c", f"test -w {SERVER} || echo no") == "no"
        assert len(engine.copies()) == 1
    assert engine.store.stat().st_mode & 0o777 == 0o700
    assert Path("/proc/self/mounts").read_text().count("server") == 0  # nothing of it is mounted here


def test_a_file_that_the_container_changed_gets_a_copy_of_its_own(engine: Engine) -> None:
    name, huge = engine.start("--annotation", "hugealign.text=auto", "server", SERVER, "5")
    assert huge == ALL
    engine.podman("stop", "--time=0", name)
    place = Path(engine.podman("inspect", "--format", "{{.GraphDriver.Data.UpperDir}}", name))
    (place / "usr/local/bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(next(engine.place.glob("root/overlay/*/diff/usr/local/bin/server")), place / "usr/local/bin/server")
    with (place / "usr/local/bin/server").open("ab") as file:
        file.write(b"changed")
    engine.podman("start", name)
    time.sleep(1)
    assert engine.podman("exec", name, "tail", "-c", "7", "/proc/1/exe") == "changed"


def test_links_lead_nowhere(engine: Engine, tmp_path: Path) -> None:
    """A name in an image is resolved inside of it: what the host has there is neither read nor covered."""
    outside = tmp_path / "outside"
    shutil.copy(HUGEALIGN, outside)
    name = engine.podman("create", "server", "true")
    link = tmp_path / "link"
    link.symlink_to(outside)
    engine.podman("cp", link, f"{name}:/usr/local/bin/evil")
    engine.podman("commit", "--quiet", name, "evil")
    before = engine.copies()
    words = ("--annotation", "hugealign.text=/usr/local/bin/evil:/../../etc/passwd:/proc/self/exe")
    _, huge = engine.start(*words, "evil", SERVER, "5")
    assert huge == 0
    assert engine.copies() == before
