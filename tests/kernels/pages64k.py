"""A machine with pages of 64 KiB: aarch64, emulated, with Ubuntu's kernel; Debian has none with such pages.

``python -m tests.kernels.pages64k docs/measured/kernels.md`` boots it and renews its section of the document.
"""

import datetime as dt
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.kernels import debian, machine, results
from tests.link import newer
from tests.sections import renewed
from tests.support import HUGEALIGN, ROOT, run

TITLE = "Pages of 64 KiB"
SERIES = "64k"
#: Of Ubuntu 26.04.  Debian has no keyring of Ubuntu's, so what the archive's signed index says of it stands here.
PACKAGE = "linux-image-unsigned-7.0.0-14-generic-64k"
_URL = f"http://archive.ubuntu.com/ubuntu/pool/main/l/linux/{PACKAGE}_7.0.0-14.14_arm64.deb"
_SHA256 = "67c5170a8f830ad5f1f048dc38f0cc0db9884170ab0518aebb2bffdb3ede9b9a"
SECONDS = 1500
#: The programs: the huge page that they are linked for; plain is linked as by default, for 64 KiB.
PROGRAMS = {"plain": "", "2M": "2M", "32M": "32M", "512M": "512M"}
_DISK = 1 << 30
_GCC = "aarch64-linux-gnu-gcc"
#: 6 MiB of text, all of one byte that is not an instruction.
_TEXT = '.text\nwalk: .fill 6 << 20, 1, 255\n.section .note.GNU-stack,"",%progbits\n'
#: Windows of 2 MiB that some of this and the little around it lies in: verify counts none that has only padding.
_WITH_CODE = 4
_MAIN = '#include <unistd.h>\nint main(void) { return write(1, "ready\\n", 6) == 6 ? pause() : 1; }\n'
_INIT = """\
#!/usr/bin/dash
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /tmp
export PATH=/usr/sbin:/usr/bin PYTHONPATH=/opt
exec python3 /opt/guest.py
"""


def check_tools() -> None:
    """Raise debian.Unavailable if a tool that is needed is not installed."""
    machine.check_tools()
    tools = ("qemu-system-aarch64", "mmdebstrap", "zstd", _GCC)
    if missing := [tool for tool in tools if not shutil.which(tool)]:
        raise debian.Unavailable(f"not installed: {', '.join(missing)}; make test-kernels installs them")


def kernel() -> debian.Kernel:
    """Fetch and unpack the kernel.  Raises debian.Unavailable."""
    directory = debian.BUILD / "packages" / PACKAGE
    image = directory / "image"
    if not image.exists():
        directory.mkdir(parents=True, exist_ok=True)
        package = directory / "package.deb"
        try:
            package.write_bytes(newer.download(_URL, _SHA256))
        except newer.UnavailableError as error:
            raise debian.Unavailable(str(error)) from error
        subprocess.run(["dpkg-deb", "-x", package, directory], check=True)
        package.unlink()
        (packed,) = directory.glob("boot/vmlinuz*")
        debian.boots(packed).rename(image)
    return debian.Kernel(PACKAGE, image, "", ())


def disks() -> list[Path]:
    """Make the disk of the system and those that are empty.  Raises debian.Unavailable."""
    with tempfile.TemporaryDirectory(dir=debian.BUILD) as name:
        tree = Path(name)
        debian.unpack_system("arm64", "stable", tree)
        for place in (
            "proc",
            "sys",
            "dev",
            "tmp",
            "programs",
            "opt",
            *(f"mnt/{fs}" for fs in ("ext4", "tmpfs")),
        ):
            (tree / place).mkdir(parents=True, exist_ok=True)
        shutil.copytree(ROOT / "hugealign", tree / "opt/hugealign", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(Path(__file__).with_name("pages64k_guest.py"), tree / "opt/guest.py")
        (tree / "init").write_text(_INIT, encoding="ascii")
        (tree / "init").chmod(0o755)
        _programs(tree / "programs")
        tree.chmod(0o755)
        system = ("mke2fs", "-qFt", "ext4", "-d", name)
        makers = {"system": system, "ext4": ("mke2fs", "-qFt", "ext4")}
        return [_disk(debian.BUILD / f"arm64-{kind}.img", *words) for kind, words in makers.items()]


def _disk(path: Path, *command: str) -> Path:
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(_DISK)
    subprocess.run([*command, path], check=True, capture_output=True)
    return path


def _programs(directory: Path) -> None:
    (directory / "text.s").write_text(_TEXT, encoding="ascii")
    (directory / "main.c").write_text(_MAIN, encoding="ascii")
    for name, page in PROGRAMS.items():
        words = [_GCC, "-O1", "-fuse-ld=bfd", "main.c", "text.s", "-o", name]
        if page:
            run(HUGEALIGN, *words, cwd=directory, check=True, HUGEALIGN_PAGE_SIZE=page)
        else:
            run(*words, cwd=directory, check=True)
    (directory / "text.s").unlink()
    (directory / "main.c").unlink()


def boot(booted: debian.Kernel, images: Sequence[Path], log: Path) -> list[dict[str, Any]]:
    """Boot the kernel *booted* with the disks *images* and return what the guest sent; the console goes to *log*.

    Raises RuntimeError if the guest did not come to its end.
    """
    command = [
        *("nice", "-n", "10", "qemu-system-aarch64", "-M", "virt", "-cpu", "neoverse-n1", "-smp", "1", "-m", "1536"),
        *("-display", "none", "-monitor", "none", "-nodefaults", "-no-reboot", "-serial", f"file:{log}"),
        *("-chardev", f"file,id=results,path={log.with_suffix('.jsonl')}", "-device", "pci-serial,chardev=results"),
        *("-kernel", str(booted.image)),
        *("-append", "console=ttyAMA0 loglevel=4 panic=-1 root=/dev/vda ro rootwait init=/init"),
    ]
    for image in images:
        command += ["-drive", f"file={image},if=none,id={image.stem},format=raw,snapshot=on"]
        command += ["-device", f"virtio-blk-pci,drive={image.stem}"]
    return machine.sent(command, log, SECONDS)


def measure() -> dict[str, Any]:
    """Boot the machine and return what was measured, and with what.  Raises debian.Unavailable, RuntimeError."""
    check_tools()
    sent = boot(kernel(), disks(), debian.BUILD / f"{SERIES}.log")
    return {"date": dt.datetime.now(tz=dt.UTC).date().isoformat(), "results": sent}


def faults(cells: Sequence[dict[str, Any]]) -> list[str]:
    """Return where hugealign's claims in *cells* are not what the page tables had."""
    result = []
    for cell in cells:
        place = f"{_column(cell)}, {cell['program']}"
        output, ps, expected = cell["verify"]["windows"], cell["ps"], min(cell["windows"], _WITH_CODE)
        wrong = {
            f"only {cell['entries']} of {cell['pages']} entries were found": cell["entries"] != cell["pages"],
            # Where the plain one lies is random; verify counts on nothing.
            f"verify sees {output} windows of 2 MiB, memory has {expected} with code": output != expected
            and cell["program"] != "plain",
            f"{cell['contiguous']} windows are contiguous, memory has {cell['windows']}": cell["contiguous"]
            > cell["windows"],
            f"ps sees {ps['windows_huge']} huge windows, which would be of 512 MiB": ps["windows_huge"],
            "ps does not say that it cannot see them": "pages are 64.0 KiB here: runs of contiguous" not in ps["text"],
        }
        result += [f"{place}: {fault}" for fault, true in wrong.items() if true]
    return result


def _column(cell: dict[str, Any]) -> str:
    return f"{cell['fs']}, read before" if cell["read"] else str(cell["fs"])


def section(measured: dict[str, Any]) -> str:
    """Return the section of docs/measured/kernels.md."""
    first, *cells = measured["results"]
    columns = list(dict.fromkeys(map(_column, cells)))
    by = {(cell["program"], _column(cell)): cell for cell in cells}
    rows = []
    for program, page in PROGRAMS.items():
        mine = [by.get((program, column)) for column in columns]
        title = f"hugealign gcc, {page}" if page else "gcc"
        output = next(cell["verify"]["windows"] for cell in mine if cell)
        rows.append([title, str(output), *(str(cell["contiguous"]) if cell else "not measured" for cell in mine)])
    table = results.table(["linked by", "verify --kernels", *columns], rows)
    return f"""\
The machine is an emulated aarch64 with Ubuntu's `{PACKAGE}`, {measured["date"]}. Debian's aarch64 kernels have pages
of 4 or 16 KiB. Here a PMD maps {first["pmd"] >> 20} MiB, and 32 contiguous entries map 2 MiB if one folio holds all
of it. The programs have 6 MiB of text, linked for a huge page of 2, 32 or 512 MiB, and all of it is touched. The
table has the number of 2 MiB windows with code that `verify --kernels` allows (`linux-64k`), and the number that the
page tables map contiguously, as read in physical memory (/proc/kcore). `read before`: the file was first read from end
to end with 16 MiB of read-ahead; folios grow during the read, so early parts are small. `smaps` and PAGEMAP_SCAN show
nothing of this, and neither does `ps`, which says so. The machine has 1.5 GiB of memory; the last program leaves
little of it.

{table}"""


def main() -> int:
    """Measure, print what is wrong, and renew the section in the document that is named."""
    try:
        measured = measure()
    except debian.Unavailable as reason:
        print(f"pages64k: {reason}", file=sys.stderr)
        return 3
    text = section(measured)
    print(text)
    wrong = faults(measured["results"][1:])
    print("\n".join(wrong) or "All claims hold.")
    if len(sys.argv) > 1 and not wrong:
        document = Path(sys.argv[1])
        document.write_text(renewed(document.read_text(), TITLE, text))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
