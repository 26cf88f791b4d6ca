"""Inside the virtual machine: hugealign under AppArmor or SELinux, as the kernel's command line says."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.kernels.guest import LIBC, MOUNTS, copied
from tests.live.programs import NOBODY, huge_kib, hugealign, running

_ENTER = "import os, sys; open('/proc/self/attr/{where}', 'w').write('{what}'); os.execvp(sys.argv[1], sys.argv[1:])"


def task(send: Any) -> None:
    """Load the policy and try what it denies."""
    directory = Path("/mnt/ext4")
    subprocess.run([*MOUNTS["ext4"].split(), directory], check=True)
    directory.chmod(0o755)
    {"apparmor": _apparmor, "selinux": _selinux}[os.environ["DENIES"]](directory, send)


def _entered(what: str) -> tuple[str, ...]:
    return (sys.executable, "-c", _ENTER.format(where="apparmor/exec", what=f"exec {what}"))


def _apparmor(directory: Path, send: Any) -> None:
    subprocess.run(["mount", "-t", "securityfs", "none", "/sys/kernel/security"], check=True)
    Path("/sys/kernel/security/apparmor/.replace").write_bytes(Path("/etc/apparmor.policy").read_bytes())
    path = copied("pie", directory)
    for who, prefix in (("root", _entered("no-mount")), ("user", (*_entered("no-mount"), *NOBODY))):
        send(case=f"mount denied, {who}", **_tried(path, prefix))
    send(case="copy denied", **_tried(path, _entered("no-copy")))
    confined = path.rename(directory / "confined")
    for who, prefix in (("root", ()), ("user", NOBODY)):
        send(case=f"confined, {who}", **_tried(confined, prefix))


def _selinux(directory: Path, send: Any) -> None:
    subprocess.run(["mount", "-t", "selinuxfs", "none", "/sys/fs/selinux"], check=True)
    path = copied("pie", directory)
    _load("labels")
    os.setxattr(path, "security.selinux", b"u:r:server\0")
    send(case="labelled", **_tried(path, ()))
    done = hugealign("stage", "--store", "/tmp/store", path)
    copy = Path(f"/tmp/store/path{path}")
    label = os.getxattr(copy, "security.selinux").decode() if copy.exists() else ""
    send(case="staged", status=done.returncode, said=done.stdout + done.stderr, label=label)
    _load("no-mount")
    LIBC.umount2(b"/tmp/store", 0)
    for who, prefix in (("root", ()), ("user", NOBODY)):
        send(case=f"mount denied, {who}", **_tried(path, prefix))


def _load(name: str) -> None:
    """Have the kernel follow a policy of /etc; a write loads all of it."""
    with open("/sys/fs/selinux/load", "wb", buffering=0) as file:
        file.write(Path(f"/etc/selinux-{name}.policy").read_bytes())
    Path("/sys/fs/selinux/enforce").write_text("1", encoding="ascii")


def _tried(path: Path, prefix: Sequence[str]) -> dict[str, Any]:
    """Run *path* by `run` and stage it, both behind *prefix*; return what is said, and what the process is like."""
    done = hugealign("run", "--", path, prefix=tuple(prefix))
    staging = hugealign("stage", "--store", "/tmp/store", path, prefix=tuple(prefix))
    mounted = "/tmp/store" in Path("/proc/self/mounts").read_text(encoding="utf-8")
    if mounted:
        hugealign("status", "--undo", "/tmp/store")
        LIBC.umount2(b"/tmp/store", 0)
    with running(*prefix, sys.executable, "-m", "hugealign", "run", "--", path, "5") as child:
        huge = huge_kib(child.pid, path)
        context = Path(f"/proc/{child.pid}/attr/current").read_text(encoding="utf-8").strip("\0\n")
    return {
        "run": {"status": done.returncode, "said": done.stderr},
        "stage": {"status": staging.returncode, "said": staging.stderr},
        "huge_kib": huge,
        "context": context,
    }
