"""A virtual machine without KVM: a kernel of Debian's, this Python, hugealign and the programs that are measured."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kernels.debian import BUILD, Kernel, Unavailable
from tests.live.programs import Programs
from tests.support import HUGEALIGN, ROOT, run

TOOLS = ("qemu-system-x86_64", "busybox", "cpio", "mke2fs", "mkfs.xfs", "mkfs.btrfs", "depmod", "setpriv")
SECONDS = 900  # for one kernel, which takes some 80 seconds on an idle machine
DISK = 512 << 20
FILE_SYSTEMS = ("ext4", "xfs", "btrfs", "tmpfs")
_MAKE = {"ext4": ("mke2fs", "-qFt", "ext4"), "xfs": ("mkfs.xfs", "-qf"), "btrfs": ("mkfs.btrfs", "-qf")}
_GUEST = ("__init__", "claims", "denied_guest", "guest", "waiting_guest")

_INIT = """\
#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t devtmpfs dev /dev
for module in /modules/*; do busybox insmod $module; done
busybox mount -t ext4 -o ro /dev/vda /system
busybox mount -t proc proc /system/proc
busybox mount -t sysfs sys /system/sys
busybox mount -t devtmpfs dev /system/dev
busybox mount -t tmpfs tmp /system/tmp
export PATH=/usr/bin:/usr/sbin PYTHONPATH=/opt
exec busybox switch_root /system /usr/bin/python3 -m tests.kernels.guest
"""


def check_tools() -> None:
    """Raise Unavailable if a tool that is needed is not installed."""
    os.environ["PATH"] += ":/usr/sbin"  # where ordinary users do not look, and mkfs and depmod are
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        raise Unavailable(f"not installed: {', '.join(missing)}; make test-kernels installs them")


def boot(kernel: Kernel, system: Path, words: str, log: Path) -> list[dict[str, Any]]:
    """Boot *kernel* with the disk *system* and return what tests.kernels.guest sent.

    *words* are for the kernel: TASK= is the guest's module that has the task.  The console goes to *log*.  Raises
    RuntimeError if the guest did not come to its end.
    """
    results = log.with_suffix(".jsonl")
    with tempfile.TemporaryDirectory(dir=BUILD) as name:
        initrd = Path(name, "initrd")
        write_initrd(kernel, initrd, Path(name), _INIT)
        disks = [system, *(BUILD / f"{kind}.img" for kind in _MAKE)]
        command = [
            *("nice", "-n", "10", "qemu-system-x86_64", "-accel", "tcg", "-smp", "1", "-m", "1024"),
            # QEMU 7.2 came back from a cmpxchg16b in SLUB with the flags overwritten: a double fault (seen once).
            *("-cpu", "max,cx16=off"),
            *("-display", "none", "-monitor", "none", "-nodefaults", "-no-reboot"),
            *("-serial", f"file:{log}", "-serial", f"file:{results}"),
            *("-kernel", str(kernel.image), "-initrd", str(initrd)),
            # What the kernel does not know goes to the environment of the first process.
            # no_timer_check: on a busy host 6.1 finds that its timer does not work, and gives up.
            *("-append", f"console=ttyS0 loglevel=4 panic=-1 no_timer_check {words}"),
        ]
        for disk in disks:  # a snapshot: every boot finds them fresh
            command += ["-drive", f"file={disk},if=virtio,format=raw,snapshot=on"]
        return sent(command, log, SECONDS)


def sent(command: Sequence[str], log: Path, seconds: int) -> list[dict[str, Any]]:
    """Run QEMU by *command*, whose guest sends lines of JSON beside the *log* of its console; return what it sent.

    Raises RuntimeError if the guest did not come to its end in *seconds*.
    """
    try:
        subprocess.run(command, check=True, timeout=seconds, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no end after {seconds} s; console: {log}") from None
    text = log.with_suffix(".jsonl").read_text(encoding="utf-8")
    found = [json.loads(line) for line in text.splitlines() if line]
    if not found or "done" not in found[-1]:
        raise RuntimeError(f"the guest failed: {found[-1].get('error') if found else 'nothing sent'}; console: {log}")
    return found[:-1]


def write_initrd(kernel: Kernel, target: Path, scratch: Path, init: str) -> None:
    """Write to *target* what loads the modules of *kernel* and is the script *init*; *scratch* is for its parts."""
    tree = scratch / "tree"
    for name in ("bin", "modules", "proc", "dev", "system"):
        (tree / name).mkdir(parents=True)
    busybox = shutil.which("busybox")
    assert busybox
    shutil.copy(busybox, tree / "bin" / "busybox")
    (tree / "init").write_text(init, encoding="ascii")
    (tree / "init").chmod(0o755)
    for number, module in enumerate(kernel.modules):
        (tree / "modules" / f"{number:02}.ko").write_bytes(module)
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    with target.open("wb") as file:
        subprocess.run(["cpio", "--quiet", "-o", "-H", "newc"], cwd=tree, input=names.encode(), stdout=file, check=True)


def disks(policies: Mapping[str, bytes] | None = None) -> Path:
    """Make the empty disks and the one with Python, hugealign and the programs; return the latter.

    *policies* are files for its /etc, by name.
    """
    BUILD.mkdir(parents=True, exist_ok=True)
    for kind, command in _MAKE.items():
        _disk(BUILD / f"{kind}.img", *command)
    with tempfile.TemporaryDirectory(dir=BUILD) as name:
        tree = Path(name)
        _tree(tree)
        tree.chmod(0o755)
        for policy, data in (policies or {}).items():
            (tree / "etc" / policy).write_bytes(data)
        return _disk(BUILD / "system.img", "mke2fs", "-qFt", "ext4", "-d", name)


def _disk(path: Path, *command: str) -> Path:
    path.unlink(missing_ok=True)
    path.touch()
    os.truncate(path, DISK)
    done = subprocess.run([*command, path], check=False, capture_output=True, text=True)  # mkfs.btrfs is no quiet one
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr}")
    return path


def _tree(tree: Path) -> None:
    for name in ("proc", "sys", "dev", "tmp", "programs", "etc", "opt/tests/live", "opt/tests/kernels"):
        (tree / name).mkdir(parents=True)
    for name in ("ext4", "xfs", "btrfs", "tmpfs", "tmpfs-huge=always"):
        (tree / "mnt" / name).mkdir(parents=True)
    build_programs(tree / "programs")
    ignored = shutil.ignore_patterns("__pycache__", "test", "lib2to3", "idlelib", "ensurepip", "*.a", "config-*")
    shutil.copytree(ROOT / "hugealign", tree / "opt/hugealign", ignore=ignored)
    for module in ("__init__", "live/__init__", "live/programs", *(f"kernels/{n}" for n in _GUEST)):
        shutil.copy(ROOT / "tests" / f"{module}.py", tree / "opt/tests" / f"{module}.py")
    python = Path("/usr/bin/python3").resolve()
    library = Path("/usr/lib") / python.name
    shutil.copytree(library, tree / library.relative_to("/"), ignore=ignored, symlinks=True)
    (tree / "usr/bin").mkdir()
    (tree / "usr/bin/python3").symlink_to(python.name)
    for link, target in (("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64"), ("sbin", "usr/sbin")):
        (tree / link).symlink_to(target)
    tools = [Path(found) for tool in ("cp", "setpriv", "mount") if (found := shutil.which(tool))]
    for file in (*tools, python):
        _copy(file.resolve(), tree)
    for file in (*tools, python, *library.glob("lib-dynload/*.so"), *(tree / "programs").iterdir()):
        for needed in _libraries(file):
            _copy(needed, tree)
    subprocess.run([python, "-m", "compileall", "-q", tree / "opt", tree / library.relative_to("/")], check=True)


def _copy(file: Path, tree: Path) -> None:
    # /lib64 and the like are links into /usr here; the loader finds the file by either name.
    name = re.sub(r"^/(lib|lib64|bin|sbin)/", r"/usr/\1/", str(file))
    target = tree / name.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, target)


def _libraries(file: Path) -> Iterator[Path]:
    done = subprocess.run(["ldd", file], check=False, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if found := re.search(r"(/\S+) \(0x", line):
            yield Path(found[1])


def build_programs(directory: Path) -> None:
    """Link the objects of tests.live.programs in every way that is measured; ``probe`` comes with them."""
    base = Programs(directory)
    base.build()
    for name in ("good", "fixed"):
        (directory / name).unlink()
    links = {
        "aligned": ["gcc", "-Wl,-z,max-page-size=0x200000"],
        "pie": [str(HUGEALIGN), "gcc"],
        "no-pie": [str(HUGEALIGN), "gcc", "-no-pie"],
        "static": [str(HUGEALIGN), "gcc", "-static"],
        "static-pie": [str(HUGEALIGN), "gcc", "-static-pie"],
    }
    for name, command in links.items():
        run(*command, "-fuse-ld=bfd", "-o", name, "main.o", "text.o", cwd=directory, check=True)
    for path in directory.iterdir():
        if path.suffix in (".o", ".c", ".s", ".ld"):
            path.unlink()
