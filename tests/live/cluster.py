"""A Kubernetes of one node: kubelet, containerd and a control plane, in namespaces of their own.

It has the kernel and the control groups of the tests, below a group of its own; its network, /run and /etc/containerd
are its own, and it may change none of this machine's settings.
"""

import contextlib
import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.live.programs import ROOT
from tests.support import HUGEALIGN, MissingError, need

#: Where kubernetes.sh puts what Debian does not have.
BINARIES = ROOT / "build" / "kubernetes"
_NAMES = ("kubelet", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_CGROUPS = Path("/sys/fs/cgroup")
#: The node: whatever its options say, kubelet sets sysctls, here those of files, and writes to some places.
_NODE = r"""
set -e
mount --make-rprivate /
mount --make-rshared /
mount -t proc proc /proc
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mkdir -p "$1/proc"
mount -t proc proc "$1/proc"
mount --bind "$1/proc/sys/net" /proc/sys/net
for name in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
    kernel/keys/root_maxbytes; do
    mkdir -p "$1/sys/${name%/*}"
    cat "/proc/sys/$name" >"$1/sys/$name"
    mount --bind "$1/sys/$name" "/proc/sys/$name"
done
for place in /run /var/lib /var/log /etc/containerd; do
    mount -t tmpfs -o mode=755 tmpfs "$place"
done
ip link set lo up
ip link add node type bridge
ip address add 10.99.0.1/24 dev node
ip link set node up
ip route add default dev node
touch "$1/up"
while :; do sleep 1; done
"""
_CONTAINERD = """\
version = 2
root = "{place}/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "pause:1"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{place}/net"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
"""
_NETWORK = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.97.0.0/24", "dataDir": "/run/cni"}}],
}
_ACCESS = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443", "insecure-skip-tls-verify": True}}],
    "users": [{"name": "u", "user": {"token": "token"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}


def _kubelet(place: Path, group: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{group}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "evictionHard": dict.fromkeys(("memory.available", "nodefs.available", "imagefs.available"), "0%"),
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "nodeStatusUpdateFrequency": "2s",
        "podLogsDir": f"{place}/logs",
        "resolvConf": "",
        "volumePluginDir": f"{place}/plugins",
    }


class CommandError(Exception):
    """A command on the node failed."""


class Cluster:
    """The cluster at *place*, whose namespaces are those of the process *node*."""

    def __init__(self, place: Path, node: int) -> None:
        self.place = place
        self._node = node
        self._enter = ("nsenter", "--target", str(node), "--mount", "--net", "--pid", "--uts", "--ipc")

    def run(self, *words: object, stdin: str | None = None, seconds: float = 240) -> str:
        """Return what a command says on the node.  Raises CommandError."""
        environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "KUBECONFIG": f"{self.place}/access"}
        command = [*self._enter, *map(str, words)]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=seconds, env=environ, input=stdin
        )
        if done.returncode:
            raise CommandError(f"{words[0]} {words[1] if words[1:] else ''}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def start(self, *words: object) -> None:
        """Start a daemon on the node."""
        with (self.place / f"{Path(str(words[0])).name}.log").open("ab") as log:
            # It ends with the node.
            subprocess.Popen(
                [*self._enter, *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self, *words: object, seconds: float = 120) -> str:
        """Return what the command says once it succeeds.  Raises CommandError."""
        end = time.monotonic() + seconds
        while True:
            try:
                return self.run(*words)
            except CommandError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.5)

    def apply(self, *documents: Mapping[str, Any]) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": documents}
        self.run("kubectl", "apply", "-f", "-", stdin=json.dumps(items))

    def pid(self, pod: str) -> int:
        """Return the PID, on the node, of the first container of the running *pod*."""
        self.run("kubectl", "wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=180s")
        path = "{.status.containerStatuses[0].containerID}"
        container = self.run("kubectl", "get", "pod", pod, "-o", f"jsonpath={path}").removeprefix("containerd://")
        (line,) = (line for line in self.ctr("task", "list").splitlines() if line.startswith(container))
        return int(line.split()[1])

    def ctr(self, *words: object) -> str:
        return self.run("ctr", "--namespace=k8s.io", *words)

    def huge_kib(self, pod: str) -> int:
        """Return the KiB of files and copies that the server of a *pod* maps with huge pages."""
        lines = self.run("cat", f"/proc/{self.pid(pod)}/smaps").splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("ShmemPmdMapped:", "FilePmdMapped:")))

    def diagnoses(self, pod: str) -> list[str]:
        """Return the codes of what `hugealign ps` says on the node of the server of a *pod*."""
        words = shlex.join(map(str, (HUGEALIGN, "ps", "--json", self.pid(pod))))
        (process,) = json.loads(self.run("sh", "-c", f"{words} || true"))["processes"]
        return [diagnosis["code"] for diagnosis in process["diagnoses"]]

    def restart_containerd(self) -> None:
        """Start containerd, again if it runs."""
        # The node has PIDs of its own, so this means its own processes.
        self.run("sh", "-c", "pkill -x containerd && while pgrep -x containerd; do sleep 0.1; done; true")
        self.start("containerd", "--config", "/etc/containerd/config.toml")
        self.wait("ctr", "version", seconds=30)

    def control(self) -> None:
        """Start everything, and wait until the node is ready.  Raises CommandError."""
        place = self.place
        (place / "net").mkdir()
        (place / "net/pods.conflist").write_text(json.dumps(_NETWORK))
        (place / "access").write_text(json.dumps(_ACCESS))
        (place / "tokens").write_text('token,admin,admin,"system:masters"\n')
        self.run("openssl", "genrsa", "-out", place / "key", "2048")
        self.run("sh", "-c", "cat >/etc/containerd/config.toml", stdin=_CONTAINERD.format(place=place))
        self.restart_containerd()
        self.start("etcd", "--data-dir", place / "etcd", "--unsafe-no-fsync")
        accounts = "--service-account-issuer=https://kubernetes.default --service-cluster-ip-range=10.98.0.0/24"
        self.start(
            BINARIES / "kube-apiserver",
            *accounts.split(),
            *(f"--service-account-{kind}-file={place}/key" for kind in ("key", "signing-key")),
            *("--etcd-servers=http://127.0.0.1:2379", f"--token-auth-file={place}/tokens", f"--cert-dir={place}/certs"),
            *("--advertise-address=10.99.0.1", "--endpoint-reconciler-type=none", "--allow-privileged=true"),
            *("--authorization-mode=AlwaysAllow", "--disable-admission-plugins=ServiceAccount"),
        )
        self.wait("kubectl", "get", "--raw", "/readyz")
        access = f"--kubeconfig={place}/access"
        key = f"--service-account-private-key-file={place}/key"
        self.start(BINARIES / "kube-controller-manager", access, key, "--leader-elect=false")
        self.start(BINARIES / "kube-scheduler", access, "--leader-elect=false")
        self.start(
            *(BINARIES / "kubelet", access, f"--config={place}/kubelet", f"--root-dir={place}/pods"),
            *("--hostname-override=node", "--node-ip=10.99.0.1"),
        )
        self.wait("kubectl", "wait", "--for=condition=Ready", "node/node", "--timeout=60s")


@contextlib.contextmanager
def cluster(place: Path) -> Iterator[Cluster]:
    """Run a cluster with its files at *place*.  Raises MissingError."""
    need("containerd", "ctr", "runc", "etcd", "kubectl", "ip", "openssl")
    for name in _NAMES:
        if not (BINARIES / name).exists():
            raise MissingError(f"there is no build/kubernetes/{name}; build it: sh tests/live/kubernetes.sh")
    if not (_CGROUPS / "memory").is_dir():
        raise MissingError("control groups of version 1 are not mounted")
    group = f"hugealign-{os.getpid()}"
    groups = [path / group for path in _CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]
    for path in groups:
        path.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            if (path / name).exists():
                (path / name).write_text((path.parent / name).read_text())
    (place / "kubelet").write_text(json.dumps(_kubelet(place, group)))
    words = ["unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child"]
    try:
        with subprocess.Popen([*words, "sh", "-c", _NODE, "sh", str(place)], stderr=subprocess.PIPE) as child:
            try:
                for _ in range(100):
                    if (place / "up").exists() or child.poll() is not None:
                        break
                    time.sleep(0.1)
                if child.poll() is not None:
                    raise MissingError(f"no namespaces for a node: {child.communicate()[1].decode()[-300:]}")
                listed = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text(encoding="ascii")
                yield Cluster(place, int(listed.split()[0]))
            finally:
                child.kill()
                child.wait()
    finally:
        _remove(groups)


def _remove(groups: list[Path]) -> None:
    for _ in range(50):
        for group in groups:
            for inner, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(inner)
        if not any(group.exists() for group in groups):
            return
        time.sleep(0.1)
