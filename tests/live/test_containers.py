"""Huge text in containers of podman and crun, whose images lie on a file system that keeps no huge folios."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.build.test_containers import manifest
from tests.live import filesystems
from tests.live import stock as stocks
from tests.live.booted import debian
from tests.live.podman import Podman, huge_kib
from tests.live.programs import ROOT, WINDOW, WINDOWS, Programs, hugealign
from tests.live.test_trees import linked
from tests.support import need

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(900)]
ALL = WINDOWS * WINDOW >> 10
SERVER = "/usr/local/bin/server"
FILES = ROOT / "examples" / "containers"


class Engine(Podman):
    """Podman with images of its own at *place*."""

    def __init__(self, place: Path, state: str) -> None:
        super().__init__("--root", place / "root", "--runroot", state, "--storage-driver", "vfs")

    def huge_kib(self, *words: str | Path) -> tuple[int, str, str]:
        """Run a container; return the KiB of its text on huge pages, what `hugealign ps` says, and what it says."""
        name, pid, output = self.start(*words)
        try:
            return huge_kib(pid), hugealign("ps", str(pid)).stdout, output
        finally:
            self.run("rm", "--force", "--time=0", name)


@pytest.fixture(scope="module")
def engine(built: Programs) -> Iterator[Engine]:
    """Yield an engine with the images that the files in examples/containers are about."""
    if os.geteuid():
        pytest.skip("root is needed")
    need("podman", "crun")
    work = built.directory / "containers"
    work.mkdir()
    # In a place of its own: podman wants a name of 50 characters at most.
    with tempfile.TemporaryDirectory(prefix="huge-") as state, filesystems.mounted("btrfs", work, size=4 << 30) as at:
        podman = Engine(at, state)
        podman.run("import", "--quiet", debian(()), "debian:12-slim")
        shutil.copy(built.good, work / "server")
        (work / "plain").write_text(f"FROM debian:12-slim\nCOPY server {SERVER}\n")
        for tag, file, context in (
            ("hugealign:1", FILES / "Dockerfile", ROOT),
            ("server-hugealign:1", FILES / "server.Dockerfile", work),
            ("server:1", work / "plain", work),
        ):
            podman.run("build", "--quiet", "--isolation=chroot", "--network=host", "-t", tag, "-f", file, context)
        yield podman


def test_one_line_of_a_dockerfile(engine: Engine) -> None:
    """Its FROM, which brings the entrypoint."""
    huge, ps, output = engine.huge_kib("server-hugealign:1", SERVER, "5")
    assert (huge, output) == (ALL, "ready")
    assert ": all 3 windows are huge\n" in ps


def test_one_line_for_what_others_built(engine: Engine, built: Programs, tmp_path: Path) -> None:
    """The lines of docs/guides/containers.md: a library without a window, which the program opens later."""
    directory = built.directory / "application"
    (directory / "app").mkdir(parents=True)
    for path in linked(directory):
        shutil.copy(path, directory / "app")
    page = (ROOT / "docs/guides/containers.md").read_text(encoding="utf-8")
    (text,) = [block for block in page.split("```") if "RUN hugealign fix -r" in block]
    (tmp_path / "Dockerfile").write_text(text.removeprefix("dockerfile\n"))
    words = ("build", "--quiet", "--isolation=chroot", "--network=host", "-t", "application", "-f")
    engine.run(*words, tmp_path / "Dockerfile", directory)
    huge, _, output = engine.huge_kib("application", "/opt/app/loads", "/opt/app/libpacked.so")
    assert huge == 3 * WINDOW >> 10, output


@pytest.mark.parametrize("options", [(), ("--cap-add=SYS_ADMIN",)])
def test_entrypoint_of_root(engine: Engine, options: tuple[str, ...]) -> None:
    """Root of a container may not mount, and the program runs from a copy without a path; with CAP_SYS_ADMIN it may."""
    huge, _, output = engine.huge_kib("--user=0", *options, "server-hugealign:1", SERVER, "5")
    assert (huge, output) == (ALL, "ready")


def test_copy_in_memory(engine: Engine) -> None:
    entrypoint = json.dumps(["hugealign", "run", "--how=copy", "--"])
    words = ("--user=0", "--read-only", "--entrypoint", entrypoint, "server-hugealign:1", SERVER, "5")
    huge, _, _ = engine.huge_kib(*words)
    assert huge == ALL


def test_image_that_nobody_changes(engine: Engine, built: Programs) -> None:
    """The host stages the file and gives it to the container as a volume."""
    with stocks.store(built.directory) as store:
        program = built.copy("of-an-image")
        assert hugealign("stage", "--store", store, program).returncode == 0
        volume = f"{store}/path{program}:{SERVER}:ro"
        huge, ps, _ = engine.huge_kib("--volume", volume, "server:1", SERVER, "5")
        assert huge == ALL
        assert ": all 3 windows are huge\n" in ps


@contextlib.contextmanager
def tmpfs(place: Path, options: str) -> Iterator[Path]:
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
        place.rmdir()


def words(pod: dict[str, Any], container: dict[str, Any], volumes: dict[str, Path]) -> list[str]:
    """Return the words for podman that start a *container* of the *pod*, as the kubelet would tell its runtime."""
    security = pod.get("securityContext", {}) | container.get("securityContext", {})
    result = [f"--user={security['runAsUser']}"]
    result += ["--privileged"] * security.get("privileged", False)
    result += ["--read-only"] * security.get("readOnlyRootFilesystem", False)
    result += ["--security-opt=no-new-privileges"] * (not security.get("allowPrivilegeEscalation", True))
    result += [f"--cap-drop={name}" for name in security.get("capabilities", {}).get("drop", ())]
    for mount in container["volumeMounts"]:
        source = volumes[mount["name"]] / mount.get("subPath", "")
        result.append(f"--volume={source}:{mount['mountPath']}{':ro' if mount.get('readOnly') else ''}")
    command = container["command"]
    return [*result, "--entrypoint", json.dumps(command[:1]), container["image"], *command[1:]]


def test_init_containers_of_a_pod(engine: Engine, tmp_path: Path) -> None:
    """The manifest's containers, one after the other, with a tmpfs as an emptyDir of memory is one."""
    pod = manifest(FILES / "initcontainer.yaml")["spec"]
    tmp_path.chmod(0o755)
    with tmpfs(tmp_path / "huge", "size=256M,mode=1777") as memory:
        volumes = {"huge": memory}
        for container in pod["initContainers"]:
            engine.finish(*words(pod, container, volumes))
        (server,) = pod["containers"]
        huge, ps, output = engine.huge_kib(*words(pod, server, volumes))
    assert (huge, output) == (ALL, "ready")
    assert ": all 3 windows are huge\n" in ps


def test_daemon_set(engine: Engine, tmp_path: Path) -> None:
    """Its init container stages for others, here in a store that is mounted before: podman's mounts end with it."""
    pod = manifest(FILES / "daemonset.yaml")["spec"]["template"]["spec"]
    for directory in (*tmp_path.parents[:2], tmp_path):
        directory.chmod(0o755)
    with tmpfs(tmp_path / "run" / "hugealign", "huge=always,mode=0755") as store:
        (stage,) = pod["initContainers"]
        engine.finish(*words(pod, stage, {"run": tmp_path / "run"}))
        volume = f"--volume={store}/path{SERVER}:{SERVER}:ro"
        huge, _, _ = engine.huge_kib("--user=65534", "--read-only", volume, "server:1", SERVER, "5")
        assert huge == ALL
        assert len([name for name in os.listdir(store) if name not in ("path", "lock")]) == 1
