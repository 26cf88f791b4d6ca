"""What runs inside the virtual machine, as its first process: do the task that was given, then power off.

It gets the standard library, hugealign and tests.live.programs, nothing else.  Each result is one line of JSON on a
disk of its own.  Programs and hugealign run as an ordinary user; the counters are read here, not by hugealign.
"""

import ctypes
import errno
import importlib
import json
import mmap
import os
import shutil
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.kernels.claims import FEW, MODES
from tests.live.programs import NOBODY, huge_kib, hugealign, running

PROGRAMS = Path("/programs")
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
#: 0 in a kernel, or on a processor, without huge pages.
WINDOW = int((THP.parent / "hpage_pmd_size").read_text(encoding="ascii")) if THP.exists() else 0
#: The argument, in MiB, that makes a program touch all of its text.
ALL = f"{5 * WINDOW / (2 << 20):g}"
MAP_FIXED = 0x10
MADV_POPULATE_READ = 22
MADV_COLLAPSE = 25
POWER_OFF = 0x4321FEDC  # LINUX_REBOOT_CMD_POWER_OFF

#: How each file system is mounted; the disks are those of tests.kernels.machine.
MOUNTS = {
    "ext4": "mount -t ext4 /dev/ext4",
    "xfs": "mount -t xfs /dev/xfs",
    "btrfs": "mount -t btrfs /dev/btrfs",
    "tmpfs": "mount -t tmpfs tmpfs",
    "tmpfs huge=always": "mount -t tmpfs -o huge=always tmpfs",
}
#: The disk that the host reads.
RESULTS = "/dev/results"
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64)
LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
LIBC.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def advise(advice: int, path: Path | None = None) -> str:
    """Return what ``madvise`` says to *advice* on a window: of the text of *path*, in use, or of no file."""
    length = 2 * WINDOW
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    room = LIBC.mmap(None, length, mmap.PROT_READ, flags, -1, 0)
    place = -(-room // WINDOW) * WINDOW
    if path:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        LIBC.mmap(place, WINDOW, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE | MAP_FIXED, fd, WINDOW)
        os.close(fd)
        ctypes.string_at(place, WINDOW)
    output = errno.errorcode[ctypes.get_errno()] if LIBC.madvise(place, WINDOW, advice) else "yes"
    LIBC.munmap(room, length)
    return output


def started(path: Path) -> int:
    """Run *path* until it has touched its text; return the KiB of text on huge pages."""
    with running(*NOBODY, path, ALL) as child:
        return huge_kib(child.pid, path)


def text(pid: int, path: Path) -> tuple[range, int]:
    """Return the addresses of the text of *path* in process *pid*, and where in the file they begin."""
    for line in Path(f"/proc/{pid}/maps").read_text(encoding="ascii").splitlines():
        words = line.split()
        if "x" in words[1] and words[-1] == str(path):
            start, end = (int(word, 16) for word in words[0].split("-"))
            return range(start, end), int(words[2], 16)
    raise RuntimeError(f"process {pid} has no text of {path}")


def congruent(pid: int, path: Path) -> bool:
    """Whether address and file offset of the text of *path* in process *pid* agree, as huge pages need."""
    addresses, offset = text(pid, path)
    return (addresses.start - offset) % WINDOW == 0


def touch(pid: int, path: Path) -> None:
    """Have process *pid*, which sleeps, touch every page of its text again: a collapse takes the pages from it."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for address in text(pid, path)[0][:: mmap.PAGESIZE]:
            os.pread(memory.fileno(), 1, address)


def warm(path: Path) -> dict[str, Any]:
    """Warm *path* and return what `hugealign warm` says of it; the *code* and *facts* of its diagnosis."""
    done = hugealign("warm", "--json", path, prefix=NOBODY)
    file = json.loads(done.stdout)["files"][0]
    diagnosis = file["diagnosis"] or {"code": None, "facts": {}}
    return {
        "status": done.returncode,
        "windows": file["windows"],
        "windows_huge": file["windows_huge"],
        "code": diagnosis["code"],
        "facts": diagnosis["facts"],
    }


def measure(program: str, directory: Path) -> dict[str, Any]:
    """Copy *program* to *directory*; run it, warm it, run it again, and ask `hugealign ps`."""
    path = copied(program, directory)
    before = started(path)
    output = warm(path)
    with running(*NOBODY, path, ALL) as child:
        after, aligned = huge_kib(child.pid, path), congruent(child.pid, path)
        ps = hugealign("ps", "--json", str(child.pid), prefix=NOBODY)
    path.unlink()
    report = json.loads(ps.stdout)["processes"][0]
    return {
        "program": program,
        "before_kib": before,
        "warm": output,
        "after_kib": after,
        "congruent": aligned,
        "ps": {"status": ps.returncode, **{k: report[k] for k in ("windows_huge", "windows_possible", "diagnoses")}},
    }


def measure_in_use(directory: Path) -> dict[str, Any]:
    """Warm a program while it runs; return what that does for its process, and for the next one."""
    path = copied("pie", directory)
    with running(*NOBODY, path, ALL) as child:
        output = warm(path)
        touch(child.pid, path)
        running_kib, next_kib = huge_kib(child.pid, path), started(path)
    path.unlink()
    return {"warm": output, "running_kib": running_kib, "next_kib": next_kib}


def staged(directory: Path) -> dict[str, int]:
    """Run a program from a staged copy; return the KiB of its text on huge pages.

    Started by root, by a user, and after an upgrade under the running program, by root.
    """
    path = copied("pie", directory)
    words = (sys.executable, "-m", "hugealign", "run", "--how=stage", "--", path, ALL)
    values = {}
    with running(*NOBODY, *words) as child:
        values["user"] = huge_kib(child.pid, path)
    with running(*words) as child:
        values["root"] = huge_kib(child.pid, path)
        new = path.with_name("pie.dpkg-new")  # dpkg(1) writes beside and renames
        subprocess.run(["cp", PROGRAMS / "pie", new], check=True)
        new.rename(path)
        with running(*words) as after:
            values["upgrade"] = huge_kib(after.pid, path)
    path.unlink()
    return values


def copied(program: str, directory: Path) -> Path:
    """Copy *program* to *directory* as people do, with cp."""
    path = directory / program
    subprocess.run(["cp", PROGRAMS / program, path], check=True)
    return path


def file_system(name: str, send: Any) -> None:
    """Mount the file system called *name*, send what it can do, and measure the programs on it."""
    directory = Path("/mnt") / name.replace(" ", "-")
    subprocess.run([*MOUNTS[name].split(), directory], check=True)
    directory.chmod(0o1777)
    # Two independent looks: what the read path gives or MADV_COLLAPSE makes, and MADV_COLLAPSE alone.
    probed, collapsed = directory / "probed", directory / "collapsed"
    for path in (probed, collapsed):
        shutil.copy(PROGRAMS / "pie", path)
    able = subprocess.run([PROGRAMS / "probe", probed], check=False).returncode == 0
    send(
        fs=name,
        able=able,
        collapse=advise(MADV_COLLAPSE, collapsed),
        in_use=measure_in_use(directory),
        staged=staged(directory),
    )
    few = FEW.get(name, FEW[""]) if "FEW" in os.environ else MODES
    for mode, programs in few.items():
        THP.write_text(mode, encoding="ascii")
        for program in filter(os.listdir(PROGRAMS).__contains__, programs):
            send(fs=name, thp=mode, **measure(program, directory))


def commands(directory: Path) -> dict[str, Any]:
    """Return what `doctor` says of this machine, what it is, and what `top` says of a program that is huge."""
    checks = json.loads(hugealign("doctor", "--json", directory).stdout)["checks"]
    path = copied("pie", directory)
    with running(*NOBODY, path, ALL) as child:
        huge = huge_kib(child.pid, path)
        rows = json.loads(hugealign("top", "--once", "--json").stdout)["rows"]
    machine = os.uname()
    return {
        "doctor": {check["diagnosis"]["code"]: check["diagnosis"]["facts"] for check in checks},
        "machine": {"release": machine.release, "machine": machine.machine, "page_size": WINDOW},
        "huge_kib": huge,
        "top": [row["windows_huge"] for row in rows if row["part"] == str(path)],
    }


def without_huge_pages() -> dict[str, Any]:
    """Return what the commands say where nothing can be huge."""
    directory = Path("/mnt/tmpfs")
    subprocess.run([*MOUNTS["tmpfs"].split(), directory], check=True)
    directory.chmod(0o1777)
    path = copied("pie", directory)
    checks = json.loads(hugealign("doctor", "--json", directory).stdout)["checks"]
    with running(*NOBODY, sys.executable, "-m", "hugealign", "run", "--", path, "1") as child:
        ps = hugealign("ps", "--json", str(child.pid), prefix=NOBODY)
    return {
        "doctor": [check["diagnosis"]["code"] for check in checks if check["status"] != "ok"],
        "warm": warm(path),
        "started": [name for name in MODES["madvise"] if (PROGRAMS / name).exists() and not started(PROGRAMS / name)],
        "ps": [item["code"] for item in json.loads(ps.stdout)["processes"][0]["diagnoses"]],
    }


def task(send: Any) -> None:
    """Measure the file systems that the kernel's command line names."""
    if not WINDOW:
        send(release=os.uname().release, page=mmap.PAGESIZE, window=0, **without_huge_pages())
        return
    wanted = os.environ["FILE_SYSTEMS"].split(",")
    thp = THP.read_text(encoding="ascii").split("[")[1].split("]")[0]
    send(
        release=os.uname().release,
        page=mmap.PAGESIZE,
        window=WINDOW,
        thp=thp,
        populate_read=advise(MADV_POPULATE_READ),
    )
    for name in MOUNTS:
        if name.split(" ")[0] in wanted:
            file_system(name, send)
    if "tmpfs" in wanted:
        send(**commands(Path("/mnt/tmpfs-huge=always")))


def main() -> None:
    """Do the task of the module that the kernel's command line names as TASK."""
    with open(RESULTS, "w", encoding="ascii") as disk:

        def send(**result: Any) -> None:
            print(json.dumps(result), file=disk, flush=True)
            os.fsync(disk.fileno())

        try:
            importlib.import_module(f"tests.kernels.{os.environ['TASK']}").task(send)
            send(done=True)
        except BaseException:  # noqa: BLE001
            # Whatever it is, the host must see it.
            send(error=traceback.format_exc())
    os.sync()
    sys.stdout.flush()
    LIBC.reboot(POWER_OFF)


if __name__ == "__main__":
    main()
