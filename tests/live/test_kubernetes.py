"""Kubernetes, a real one of one node: what docs/guides/kubernetes.md and the manifests say, and the windows by smaps.

Debian has no kubelet: `sh tests/live/kubernetes.sh` builds it and a control plane, and without them this is skipped.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.build.test_containers import manifests
from tests.live import filesystems
from tests.live.booted import debian
from tests.live.cluster import Cluster, CommandError, cluster
from tests.live.programs import ROOT, WINDOW, WINDOWS, Programs
from tests.live.test_docker import FILES, SERVER, Docker
from tests.support import HUGEALIGN, MissingError, need

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(1800)]
ALL = WINDOWS * WINDOW >> 10
_PAUSE = "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n"


def images(work: Path, at: Path, built: Programs) -> Path:
    """Return an archive of the images that the manifests name, and of the one without which there is no pod."""
    docker, context = Docker(at, work), work / "context"
    context.mkdir()
    shutil.copy(built.good, context / "server")
    (context / "pause.c").write_text(_PAUSE)
    subprocess.run(["gcc", "-static", "-O1", context / "pause.c", "-o", context / "pause"], check=True)
    (context / "plain").write_text(f"FROM debian:12-slim\nCOPY server {SERVER}\n")
    (context / "none").write_text('FROM scratch\nCOPY pause /pause\nENTRYPOINT ["/pause"]\n')
    docker.start()
    try:
        docker.run("import", debian(()), "debian:12-slim")
        docker.build("hugealign:1", FILES / "Dockerfile", ROOT)
        docker.build("server-hugealign:1", FILES / "server.Dockerfile", context)
        docker.build("server:1", context / "plain", context)
        docker.build("pause:1", context / "none", context)
        archive = work / "images.tar"
        docker.run("save", "--output", archive, "hugealign:1", "server-hugealign:1", "server:1", "pause:1")
        return archive
    finally:
        docker.stop()


@pytest.fixture(scope="module", params=["ext4", "btrfs"])
def kubernetes(request: pytest.FixtureRequest, built: Programs) -> Iterator[Cluster]:
    if os.geteuid():
        pytest.skip("root is needed")
    need("dockerd", "docker")
    work = built.directory / f"kubernetes-{request.param}"
    work.mkdir()
    with filesystems.mounted(request.param, work, size=8 << 30) as at:
        archive = images(work, at, built)
        place = at / "node"
        place.mkdir()
        with cluster(place) as node:
            try:
                node.control()
            except CommandError as error:  # it is not what the tests are about
                raise MissingError(f"no cluster starts here: {error}") from error
            node.ctr("images", "import", archive)
            yield node


def test_init_container(kubernetes: Cluster) -> None:
    """The manifest as it is; without the container that makes the copy huge, nothing is."""
    (pod,) = manifests(FILES / "initcontainer.yaml")
    cold = {"metadata": {"name": "cold"}, "spec": pod["spec"] | {"initContainers": pod["spec"]["initContainers"][:1]}}
    kubernetes.apply(pod, pod | cold)
    assert [kubernetes.huge_kib(name) for name in ("server", "cold")] == [ALL, 0]


def test_daemon_set(kubernetes: Cluster) -> None:
    """The manifest as it is, and a pod with the volume in its first lines."""
    kubernetes.apply(*manifests(FILES / "daemonset.yaml"))
    kubernetes.run("kubectl", "rollout", "status", "daemonset/huge-server", "--timeout=180s")
    text = (FILES / "daemonset.yaml").read_text(encoding="utf-8")
    lines = re.findall(r"^#   (.*)\n", text, re.MULTILINE)
    given = yaml.safe_load("\n".join(lines))
    container = {"name": "server", "image": "server:1", "command": [SERVER, "5"], "volumeMounts": given["volumeMounts"]}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [container], "volumes": given["volumes"], "securityContext": {"runAsUser": 65534}},
        }
        for name in ("one", "other")
    ]
    kubernetes.apply(*pods)
    assert [kubernetes.huge_kib(name) for name in ("one", "other")] == [ALL, ALL]
    copies = kubernetes.run("find", "/run/hugealign", "-maxdepth", "1", "-type", "f", "-size", "+1M").split()
    assert len(copies) == 1  # for both


def test_runtime_class(kubernetes: Cluster) -> None:
    """The lines of the page, typed; with the annotation all windows are huge, without it none; others run on."""
    kept = {"containers": [{"name": "kept", "image": "server:1", "command": [SERVER, "5"]}]}
    kubernetes.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kept"}, "spec": kept})
    before = kubernetes.pid("kept")
    page = (ROOT / "docs/guides/kubernetes.md").read_text(encoding="utf-8")
    (block,) = [block for block in page.split("```") if "ctr oci spec" in block]
    hook = FILES / "hugealign.json"
    mine = kubernetes.place / "hugealign.json"
    mine.write_text(hook.read_text(encoding="utf-8").replace("/usr/bin/hugealign", str(HUGEALIGN)))
    typed = block.removeprefix("sh\n").replace("examples/containers/hugealign.json", str(mine))
    kubernetes.run("sh", "-ec", typed)
    kubernetes.restart_containerd()
    runtime, pod = manifests(FILES / "runtimeclass.yaml")
    plain = pod | {"metadata": {"name": "without-annotation"}}
    other = pod | {"metadata": {"name": "other-program", "annotations": {"hugealign.text": "/bin/true"}}}
    kubernetes.apply(runtime, pod, plain, other)
    names = ("server-by-hook", "without-annotation", "other-program")
    assert [kubernetes.huge_kib(name) for name in names] == [ALL, 0, 0]
    found = [kubernetes.diagnoses(name) for name in names]
    assert found[0] == []
    assert ["container.hook-failed" in codes for codes in found[1:]] == [False, True]
    assert kubernetes.pid("kept") == before
