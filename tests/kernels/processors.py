"""Debian's kernels of other processors, emulated: their section of docs/measured/kernels.md.

``python -m tests.kernels.processors --kernel riscv64-6.12`` boots one; ``--write docs/measured/kernels.md`` renews the
section of what the last runs measured.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hugealign.elf.machines import LOONGARCH64, PPC64LE, RISCV64, S390X, Machine
from tests.kernels import debian, machine, results
from tests.kernels.claims import faults
from tests.link.test_processors import CANNOT, CHAINS
from tests.sections import renewed
from tests.support import run

TITLE = "Other processors"


@dataclass(frozen=True, slots=True)
class Processor:
    """One processor: Debian's name of it, the *suite* that its Python comes from, and how it is emulated.

    *qemu* is the command, empty for that of Debian 13; *memory* is in MiB.
    """

    debian: str
    machine: Machine
    suite: str
    qemu: tuple[str, ...]
    console: str
    memory: int = 2048


_RISCV64 = Processor("riscv64", RISCV64, "stable", ("qemu-system-riscv64", "-M", "virt", "-cpu", "rv64"), "ttyS0")
# TCG has no means against what these capabilities are about.
_PSERIES = "pseries,cap-cfpc=broken,cap-sbbc=broken,cap-ibs=broken,cap-ccf-assist=off"
_PPC64EL = Processor("ppc64el", PPC64LE, "stable", ("qemu-system-ppc64", "-M", _PSERIES, "-cpu", "power9"), "hvc0")
_S390X = Processor("s390x", S390X, "stable", ("qemu-system-s390x", "-M", "s390-ccw-virtio", "-cpu", "max"), "ttysclp0")
# Debian 12's QEMU boots no EFI image there.  With 2 GiB not enough blocks of 32 MiB are free.
_LOONG64 = Processor("loong64", LOONGARCH64, "testing", ("", "-M", "virt", "-cpu", "la464"), "ttyS0", 6144)
#: By series: the processor, the kernel's version and its flavour.
KERNELS = {
    "riscv64-6.12": (_RISCV64, "6.12", "riscv64"),
    "riscv64-7.2": (_RISCV64, "7.2", "riscv64"),
    "ppc64el-6.12": (_PPC64EL, "6.12", "powerpc64le"),
    "ppc64el-64k-6.12": (_PPC64EL, "6.12", "powerpc64le-64k"),
    "ppc64el-7.2": (_PPC64EL, "7.2", "powerpc64le"),
    "s390x-6.12": (_S390X, "6.12", "s390x"),
    "s390x-7.2": (_S390X, "7.2", "s390x"),
    "loong64-7.2": (_LOONG64, "7.2", "loong64"),
}


def check_tools() -> None:
    """Raise debian.Unavailable if a tool that is needed is not installed."""
    machine.check_tools()
    tools = ("qemu-system-riscv64", "qemu-system-ppc64", "qemu-system-s390x", "mmdebstrap", "zstd")
    if missing := [tool for tool in tools if not shutil.which(tool)]:
        raise debian.Unavailable(f"not installed: {', '.join(missing)}; make test-kernels installs them")


def emulated(processor: Processor) -> machine.Emulated:
    """Make the disks for *processor*.  Raises debian.Unavailable."""
    row, chain = processor.machine, CHAINS[f"{processor.machine.name}-bfd"]
    if reason := chain.missing():
        raise debian.Unavailable(reason)
    machine.empty_disks()
    with tempfile.TemporaryDirectory(dir=debian.BUILD) as name:
        tree = Path(name)
        debian.unpack_system(processor.debian, processor.suite, tree)
        machine.add_product(tree)
        lacks = [mode for mode in ("static-pie",) if (row.name, mode) in CANNOT]
        machine.build_programs(
            tree / "programs", row.windows[0], max(row.pages), chain.compile, (*chain.words, "-fuse-ld=bfd"), lacks
        )
        (python,) = tree.glob("usr/bin/python3.*")
        # Emulated, the machine would take minutes for it.
        words: list[object] = [
            *chain.qemu,
            "-L",
            tree,
            python,
            "-m",
            "compileall",
            "-q",
            tree / "opt",
            tree / "usr/lib" / python.name,
        ]
        run(*words, check=True)
        busybox = debian.BUILD / f"{processor.debian}.busybox"
        shutil.copy(tree / "usr/bin/busybox", busybox)
        disk = machine.system_disk(tree, processor.debian)
    qemu = processor.qemu if processor.qemu[0] else (*_newer_qemu(), *processor.qemu[1:])
    return machine.Emulated((*qemu, "-m", str(processor.memory)), processor.console, busybox, disk)


def _newer_qemu() -> tuple[str, ...]:
    """Return the command of Debian 13's qemu-system-loongarch64, unpacked.  Raises debian.Unavailable.

    The firmware has the tables of ACPI, without which the kernel finds no disk there.
    """
    root = debian.BUILD / "qemu"
    if not root.exists():
        with tempfile.TemporaryDirectory(dir=debian.BUILD) as name:
            tree = Path(name, "tree")
            tree.mkdir()
            debian.unpack_system("amd64", "stable", tree, ("qemu-system-misc", "qemu-efi-loongarch64"))
            tree.rename(root)
    loader, libraries = root / "usr/lib64/ld-linux-x86-64.so.2", root / "usr/lib/x86_64-linux-gnu"
    program = root / "usr/bin/qemu-system-loongarch64"
    words = [loader, "--library-path", libraries, program, "-L", root / "usr/share/qemu"]
    return (*map(str, words), "-bios", str(root / "usr/share/qemu-efi-loongarch64/QEMU_EFI.fd"))


def measure(series: str) -> dict[str, Any]:
    """Boot the kernel of *series* and return what was measured, and with what.

    Raises debian.Unavailable, RuntimeError.
    """
    check_tools()
    processor, number, flavour = KERNELS[series]
    debian.update(processor.debian)
    kernel = debian.kernel(number, processor.debian, flavour)
    return results.measure(series, emulated(processor), kernel=kernel)


def saved() -> list[dict[str, Any]]:
    """Return what was measured, for each kernel that was."""
    return [kept for series in KERNELS if (kept := results.saved(series))]


def section(runs: Sequence[dict[str, Any]]) -> str:
    """Return the section of docs/measured/kernels.md for *runs*."""
    rows = []
    for one in runs:
        page, window = (one["results"][0][size] >> 10 for size in ("page", "window"))
        sizes = [f"{page} KiB", f"{window >> 10} MiB" if window else "none"]
        rows.append([one["series"], KERNELS[one["series"]][0].machine.name, *sizes, f"`{one['package']}`", one["date"]])
    without, runs = _without(runs), [one for one in runs if one["results"][0]["window"]]
    kernels = results.table(["kernel", "processor", "base pages", "window", "package", "tested"], rows)
    return f"""\
`python -m tests.kernels.processors --kernel {runs[0]["series"]} --write docs/measured/kernels.md` boots one of these
kernels and renews this section. The programs are those of the tables above, for windows of the processor's own size:
their text is two and a half windows, so three with the pad. An ordinary user calls `warm` and `ps`, and the test checks
both against `smaps`.

{kernels}
Windows on huge pages after `cp`, and after `hugealign warm`. THP is `madvise`.

{results.coverage(runs, "madvise")}
After `hugealign run --how=stage`, started by root, by an ordinary user, and by root after the file was replaced:

{results.staged(runs)}
After `warm` on tmpfs, by how the program is linked. Debian 12's cross compilers link no static PIE.

{results.programs(runs)}{without}"""


def _without(runs: Sequence[dict[str, Any]]) -> str:
    """Return what is said of kernels without huge pages."""
    found = [one for one in runs if not one["results"][0]["window"]]
    if not found:
        return ""
    names = ", ".join(one["series"] for one in found)
    links = ", ".join(found[0]["results"][0]["started"])
    return f"""
{names}: QEMU emulates no huge pages on that processor (EDAT-1), so the kernel has no transparent ones. `doctor`, `warm`
and `ps` say so (`machine.no-thp`), and the programs run ({links}).
Whether text becomes huge there was not measured.
"""


def main() -> int:
    """Return 1 if a claim of hugealign's is wrong, 3 if a kernel cannot be had."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.kernels.processors", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--kernel", choices=KERNELS, action="append", help="boot it; may be repeated")
    parser.add_argument("--write", metavar="FILE", type=Path, help="renew the section in FILE")
    args = parser.parse_args()
    wrong = []
    for series in args.kernel or ():
        try:
            measured = measure(series)
        except debian.Unavailable as reason:
            print(f"{series}: {reason}", file=sys.stderr)
            return 3
        wrong += [f"{series}: {fault}" for fault in faults(measured["results"])]
        if not wrong:
            results.save(series, measured)
    print("\n".join(wrong) or "All claims hold.")
    if args.write:
        text = section(saved())
        args.write.write_text(renewed(args.write.read_text(encoding="utf-8"), TITLE, text), encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
