"""A virtual machine without KVM: a kernel of Debian's, this Python, hugealign and the programs that are measured."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kernels.debian import BUILD, Kernel, Unavailable
from tests.live.programs import WINDOW, write_sources
from tests.support import HUGEALIGN, ROOT, run

TOOLS = ("qemu-system-x86_64", "busybox", "cpio", "mke2fs", "mkfs.xfs", "mkfs.btrfs", "depmod", "setpriv")
SECONDS = 1800  # for one kernel; x86-64 takes some 80 seconds on an idle machine, others three times that
DISK = 512 << 20
RESULTS = 1 << 20
BUSYBOX = Path("/usr/bin/busybox")
_IGNORED = shutil.ignore_patterns("__pycache__", "test", "lib2to3", "idlelib", "ensurepip", "*.a", "config-*")
FILE_SYSTEMS = ("ext4", "xfs", "btrfs", "tmpfs")
_MAKE = {"ext4": ("mke2fs", "-qFt", "ext4"), "xfs": ("mkfs.xfs", "-qf"), "btrfs": ("mkfs.btrfs", "-qf")}
_GUEST = ("__init__", "claims", "denied_guest", "guest", "limited_guest", "waiting_guest")


@dataclass(frozen=True, slots=True)
class Emulated:
    """A processor as QEMU plays it: the words of its machine, the kernel's *console*, what the kernel needs to hear.

    *busybox* is a static one for it; *system* is the disk of `disks`.
    """

    qemu: tuple[str, ...]
    console: str
    busybox: Path
    system: Path
    words: str = ""


_INIT = """\
#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t devtmpfs dev /dev
busybox mount -t sysfs sys /sys
for module in /modules/*; do busybox insmod $module; done
for disk in /sys/block/vd*; do busybox ln -s ${disk##*/} /dev/$(busybox cat $disk/serial); done
busybox mount -t ext4 -o ro /dev/system /system
busybox mount -t proc proc /system/proc
busybox mount -t sysfs sys /system/sys
busybox mount -t devtmpfs dev /system/dev
busybox mount -t tmpfs tmp /system/tmp
export PATH=/usr/bin:/usr/sbin PYTHONPATH=/opt
exec busybox switch_root /system /usr/bin/python3 -m tests.kernels.guest
"""

#: Starts what a disk with Debian holds: a template for the words of its first process.
DEBIAN_INIT = """\
#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t devtmpfs dev /dev
for module in /modules/*; do busybox insmod $module; done
busybox mount -t ext4 /dev/vda /system
busybox umount /proc
exec busybox switch_root /system {}
"""


def check_tools() -> None:
    """Raise Unavailable if a tool that is needed is not installed."""
    os.environ["PATH"] += ":/usr/sbin"  # where ordinary users do not look, and mkfs and depmod are
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        raise Unavailable(f"not installed: {', '.join(missing)}; make test-kernels installs them")


def boot(kernel: Kernel, machine: Emulated, words: str, log: Path) -> list[dict[str, Any]]:
    """Boot *kernel* on *machine* and return what tests.kernels.guest sent.

    *words* are for the kernel: TASK= is the guest's module that has the task.  The console goes to *log*.  Raises
    RuntimeError if the guest did not come to its end.
    """
    results = log.with_suffix(".jsonl")
    results.write_bytes(bytes(RESULTS))
    with tempfile.TemporaryDirectory(dir=BUILD) as name:
        initrd = Path(name, "initrd")
        write_initrd(kernel, initrd, Path(name), _INIT, machine.busybox)
        command = [
            *("nice", "-n", "5", *machine.qemu, "-accel", "tcg", "-smp", "1"),
            *("-display", "none", "-monitor", "none", "-nodefaults", "-no-reboot", "-serial", f"file:{log}"),
            *("-kernel", str(kernel.image), "-initrd", str(initrd)),
            # What the kernel does not know goes to the environment of the first process.
            *("-append", f"console={machine.console} loglevel=4 panic=-1 {machine.words} {words}"),
        ]
        disks = {"system": machine.system, **{kind: BUILD / f"{kind}.img" for kind in _MAKE}, "results": results}
        for serial, disk in disks.items():  # every boot finds all but the last fresh; the kernel gives them any order
            fresh = "on" if disk != results else "off"
            command += ["-drive", f"file={disk},if=none,id={serial},format=raw,snapshot={fresh}"]
            command += ["-device", f"virtio-blk,drive={serial},serial={serial}"]
        return sent(command, log, SECONDS)


def sent(command: Sequence[str], log: Path, seconds: int) -> list[dict[str, Any]]:
    """Run QEMU by *command*, whose guest sends lines of JSON beside the *log* of its console; return what it sent.

    Raises RuntimeError if the guest did not come to its end in *seconds*.
    """
    try:
        subprocess.run(command, check=True, timeout=seconds, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no end after {seconds} s; console: {log}") from None
    text = log.with_suffix(".jsonl").read_text(encoding="utf-8").rstrip("\0")
    result = [json.loads(line) for line in text.splitlines() if line]
    if not result or "done" not in result[-1]:
        raise RuntimeError(f"the guest failed: {result[-1].get('error') if result else 'nothing sent'}; console: {log}")
    return result[:-1]


def write_initrd(kernel: Kernel, target: Path, scratch: Path, init: str, busybox: Path | None = None) -> None:
    """Write to *target* what loads the modules of *kernel* and is the script *init*; *scratch* is for its parts.

    The script runs by *busybox*, or by that of this machine.
    """
    tree = scratch / "tree"
    for name in ("bin", "modules", "proc", "sys", "dev", "system"):
        (tree / name).mkdir(parents=True)
    shutil.copy(busybox or BUSYBOX, tree / "bin" / "busybox")
    (tree / "init").write_text(init, encoding="ascii")
    (tree / "init").chmod(0o755)
    for number, module in enumerate(kernel.modules):
        (tree / "modules" / f"{number:02}.ko").write_bytes(module)
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    with target.open("wb") as file:
        subprocess.run(["cpio", "--quiet", "-o", "-H", "newc"], cwd=tree, input=names.encode(), stdout=file, check=True)


def disks(policies: Mapping[str, bytes] | None = None) -> Emulated:
    """Make the empty disks and the one with Python, hugealign and the programs; return the machine that has them.

    *policies* are files for its /etc, by name.
    """
    empty_disks()
    with tempfile.TemporaryDirectory(dir=BUILD) as name:
        tree = Path(name)
        _python(tree)
        add_product(tree)
        build_programs(tree / "programs")
        for file in (tree / "programs").iterdir():
            for needed in _libraries(file):
                _copy(needed, tree)
        subprocess.run(["/usr/bin/python3", "-m", "compileall", "-q", tree / "opt", tree / "usr/lib"], check=True)
        for policy, data in (policies or {}).items():
            (tree / "etc" / policy).write_bytes(data)
        return Emulated(
            # QEMU 7.2 came back from a cmpxchg16b in SLUB with the flags overwritten: a double fault (seen once).
            ("qemu-system-x86_64", "-cpu", "max,cx16=off", "-m", "1024"),
            "ttyS0",
            BUSYBOX,
            system_disk(tree, "amd64"),
            "no_timer_check",  # on a busy host 6.1 finds that its timer does not work, and gives up
        )


def empty_disks() -> None:
    """Make the disks with the file systems that are measured."""
    BUILD.mkdir(parents=True, exist_ok=True)
    for kind, command in _MAKE.items():
        _disk(BUILD / f"{kind}.img", *command)


def system_disk(tree: Path, arch: str) -> Path:
    """Make the disk for *arch* of what is in *tree*."""
    tree.chmod(0o755)
    return _disk(BUILD / f"{arch}.img", "mke2fs", "-qFt", "ext4", "-d", str(tree))


def _disk(path: Path, *command: str) -> Path:
    path.unlink(missing_ok=True)
    path.touch()
    os.truncate(path, DISK)
    done = subprocess.run([*command, path], check=False, capture_output=True, text=True)  # mkfs.btrfs is not quiet
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr}")
    return path


def add_product(tree: Path) -> None:
    """Put into *tree* the directories that the guest wants, hugealign and the guest's own modules."""
    for name in ("proc", "sys", "dev", "tmp", "programs", "etc", "opt/tests/live", "opt/tests/kernels"):
        (tree / name).mkdir(parents=True, exist_ok=True)
    for name in ("ext4", "xfs", "btrfs", "tmpfs", "tmpfs-huge=always"):
        (tree / "mnt" / name).mkdir(parents=True)
    shutil.copytree(ROOT / "hugealign", tree / "opt/hugealign", ignore=_IGNORED)
    for module in ("__init__", "live/__init__", "live/programs", *(f"kernels/{n}" for n in _GUEST)):
        shutil.copy(ROOT / "tests" / f"{module}.py", tree / "opt/tests" / f"{module}.py")


def _python(tree: Path) -> None:
    python = Path("/usr/bin/python3").resolve()
    library = Path("/usr/lib") / python.name
    shutil.copytree(library, tree / library.relative_to("/"), ignore=_IGNORED, symlinks=True)
    (tree / "usr/bin").mkdir()
    (tree / "usr/bin/python3").symlink_to(python.name)
    for link, target in (("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64"), ("sbin", "usr/sbin")):
        (tree / link).symlink_to(target)
    tools = [Path(result) for tool in ("cp", "setpriv", "mount") if (result := shutil.which(tool))]
    for file in (*tools, python):
        _copy(file.resolve(), tree)
    for file in (*tools, python, *library.glob("lib-dynload/*.so")):
        for needed in _libraries(file):
            _copy(needed, tree)


def _copy(file: Path, tree: Path) -> None:
    # /lib64 and the like are links into /usr here; the loader finds the file by either name.
    name = re.sub(r"^/(lib|lib64|bin|sbin)/", r"/usr/\1/", str(file))
    target = tree / name.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, target)


def _libraries(file: Path) -> Iterator[Path]:
    done = subprocess.run(["ldd", file], check=False, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if match := re.search(r"(/\S+) \(0x", line):
            yield Path(match[1])


def build_programs(
    directory: Path,
    window: int = WINDOW,
    base: int = 4096,
    compiler: Sequence[str] = ("gcc",),
    linker: Sequence[str] = ("gcc", "-fuse-ld=bfd"),
    lacks: Sequence[str] = (),
) -> None:
    """Link a program in every way that is measured, for huge pages of *window* bytes and base pages of *base*.

    *compiler* and *linker* are commands; *lacks* are the ways that they cannot.  ``probe`` comes with them.
    """
    write_sources(directory, window)
    run(*compiler, "-c", "-O1", "-fPIE", "main.c", "probe.c", "text.s", cwd=directory, check=True)
    run(*linker, "-o", "probe", "probe.o", cwd=directory, check=True)
    for name, words in {
        "plain": ("-pie", f"-Wl,-z,max-page-size={base}"),
        "aligned": ("-pie", f"-Wl,-z,max-page-size={window}"),
        **{mode: (f"-{mode}",) for mode in ("pie", "no-pie", "static", "static-pie")},
    }.items():
        if name not in lacks:
            launcher = () if name in ("plain", "aligned") else (HUGEALIGN,)
            run(*launcher, *linker, *words, "-o", name, "main.o", "text.o", cwd=directory, check=True)
    for path in directory.iterdir():
        if path.suffix in (".o", ".c", ".s"):
            path.unlink()
