"""Read control groups: which systemd service, which container.

Sources for the names of groups: systemd (systemd.slice(5)), the cgroup drivers of Docker, containerd, CRI-O and Podman,
and kubelet for pods (pkg/kubelet/cm in Kubernetes).
"""

import os
import re
from contextlib import suppress

_SERVICE = re.compile(r"[A-Za-z0-9:_.\\@-]{1,200}\.service")
_CONTAINER = re.compile(r"(?:^|[-/])([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_ENGINE = re.compile(r"/(docker|cri-containerd)[-/][0-9a-f]{64}")
_ENGINES = {"docker": "Docker", "cri-containerd": "containerd"}
_POD = re.compile(r"[-/]pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")
_LIMIT = 1 << 20  # bytes of a list of groups
_SHORT = 12  # digits of a container's name to show


def of_process(pid: int) -> str:
    """Return the text of /proc/PID/cgroup for *pid* (cgroups(7)); empty if it is gone."""
    with suppress(OSError), open(f"/proc/{pid}/cgroup", "rb") as file:
        return os.fsdecode(file.read(_LIMIT))
    return ""


def path(text: str) -> str:
    """Return the group in the *text* of /proc/PID/cgroup: the unified one, or else systemd's own."""
    groups = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, colon, group = rest.partition(":")
        if colon:
            groups[controllers] = group
    unified = groups.get("", "")
    return unified if len(unified) > 1 else groups.get("name=systemd", unified)


def service(text: str) -> str:
    """Return the system service of a process whose /proc/PID/cgroup is *text*; empty if a user's manager runs it."""
    _, *parts = path(text).split("/")
    if of_user(text):
        return ""
    within = next((part for part in parts if not part.endswith(".slice")), "")
    return within if _SERVICE.fullmatch(within) else ""


def container_id(text: str) -> str:
    """Return the full name of the container of a process whose /proc/PID/cgroup is *text*; empty outside any."""
    named = _CONTAINER.search(path(text))
    return named[1] if named else ""


def of_user(text: str) -> bool:
    """Return whether a user's manager runs the process whose /proc/PID/cgroup is *text*."""
    return path(text).startswith("/user.slice/")


def engine(text: str) -> str:
    """Return which engine runs the container of a process whose /proc/PID/cgroup is *text*, if the group says that.

    Only those that read no directory of hooks.
    """
    found = _ENGINE.search(path(text))
    return _ENGINES[found[1]] if found else ""


def container(text: str) -> str:
    """Return the container of a process whose /proc/PID/cgroup is *text*, after its pod; empty outside any."""
    pod, name = _POD.search(path(text)), container_id(text)
    names = [f"pod {pod[1].replace('_', '-')}"] if pod else []
    return "/".join([*names, name[:_SHORT]] if name else names)
