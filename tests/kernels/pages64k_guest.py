"""What runs in the machine with pages of 64 KiB: which windows of 2 MiB are mapped by contiguous page table entries.

It looks into the page tables themselves, in physical memory, and asks hugealign.  With pages of 64 KiB, 32
entries with the contiguous bit map 2 MiB (PTE_CONT and CONT_PTE_SHIFT in
arch/arm64/include/asm/pgtable-hwdef.h).
"""

import ctypes
import functools
import json
import os
import struct
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from hugealign import cli

PAGE, RUN, ENTRIES = 64 << 10, 32, 8192
CONTIGUOUS = 1 << 52
OUTPUT = (1 << 48) - PAGE  # the bits of an entry that are an address
PROGRAMS = Path("/programs")
POWER_OFF = 0x4321FEDC  # LINUX_REBOOT_CMD_POWER_OFF
MOUNTS = {"tmpfs huge=always": "mount -t tmpfs -o huge=always tmpfs", "ext4": "mount -t ext4 /dev/vdb"}
READ_AHEAD = Path("/sys/block/vdb/queue/read_ahead_kb")


def hugealign(*words: str) -> dict[str, Any]:
    """Run our command, in this process: emulated, Python takes seconds to start.  It writes to the descriptor."""
    kept = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            status = cli.main(list(words))
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        return {"status": status, "text": file.read().decode()}


@functools.cache
def verified(program: str) -> dict[str, Any]:
    """Return what `hugealign verify --kernels` says of *program* for a kernel with these pages."""
    words = [sys.executable, "-m", "hugealign", "verify", "--kernels", "--json", str(PROGRAMS / program)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    kernels: list[dict[str, Any]] = json.loads(done.stdout)["files"][0]["kernels"]
    return next(kernel for kernel in kernels if kernel["system"] == "linux-64k")


def text(pid: int, path: Path) -> tuple[range, int]:
    """Return the addresses of the text of *path* in process *pid*, and where in the file they begin."""
    for line in Path(f"/proc/{pid}/maps").read_text(encoding="ascii").splitlines():
        words = line.split()
        if "x" in words[1] and words[-1] == str(path):
            start, end = (int(word, 16) for word in words[0].split("-"))
            return range(start, end), int(words[2], 16)
    raise RuntimeError(f"process {pid} has no text of {path}")


def touch(pid: int, addresses: range) -> None:
    """Have every page of *addresses* mapped."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for address in addresses[::PAGE]:
            os.pread(memory.fileno(), 1, address)


def frames(pid: int, addresses: range) -> list[int]:
    """Return the physical addresses of the pages at *addresses*."""
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        raw = os.pread(pagemap.fileno(), len(addresses) // PAGE * 8, addresses.start // PAGE * 8)
    return [(entry & ((1 << 55) - 1)) * PAGE for (entry,) in struct.iter_unpack("<Q", raw)]


def ram(core: int) -> dict[range, int]:
    """Return where physical memory is, and where it begins in the open file /proc/kcore, which is an ELF file."""
    (table,), (count,) = struct.unpack("<Q", os.pread(core, 8, 32)), struct.unpack("<H", os.pread(core, 2, 56))
    values = {}
    for kind, _, offset, _, physical, size, *_ in struct.iter_unpack("<IIQQQQQQ", os.pread(core, 56 * count, table)):
        if kind == 1 and physical != (1 << 64) - 1:
            values[range(physical, physical + size)] = offset
    return values


def entries(core: int, addresses: range, pages: list[int]) -> dict[int, int]:
    """Return the page table entry of each of *addresses*, found by the physical addresses *pages* that it must have."""
    values: dict[int, int] = {}
    for table in range(addresses.start // PAGE // ENTRIES, (addresses.stop - 1) // PAGE // ENTRIES + 1):
        mine = {
            at: page
            for at, page in zip(addresses[::PAGE], pages, strict=True)
            if at // PAGE // ENTRIES == table and page
        }
        samples = dict([*mine.items()][:: max(1, len(mine) // 4)])
        for place in (frame for part, offset in ram(core).items() for frame in range(offset, offset + len(part), PAGE)):
            # Another process may map the same pages; its table is of other addresses, or the same for our purpose.
            if all(_entry(core, place, at) & OUTPUT == page for at, page in samples.items()):
                values |= {at: _entry(core, place, at) for at in mine}
                break
    return values


def _entry(core: int, table: int, address: int) -> int:
    """Return the entry for *address* in the page *table*, 0 if it is not valid or cannot be read."""
    try:
        (entry,) = struct.unpack("<Q", os.pread(core, 8, table + address // PAGE % ENTRIES * 8))
    except (OSError, struct.error):
        return 0
    return int(entry) if entry & 3 == 3 else 0


def runs(pid: int, path: Path) -> dict[str, int]:
    """Return how many windows of 2 MiB of the text of *path* the page tables map contiguously, and how many it has."""
    addresses, offset = text(pid, path)
    touch(pid, addresses)
    with open("/proc/kcore", "rb", buffering=0) as core:
        values = entries(core.fileno(), addresses, frames(pid, addresses))
    first = -(-addresses.start // (RUN * PAGE)) * RUN * PAGE
    windows = [range(at, at + RUN * PAGE, PAGE) for at in range(first, addresses.stop - RUN * PAGE + 1, RUN * PAGE)]
    return {
        "contiguous": sum(all(values.get(at, 0) & CONTIGUOUS for at in window) for window in windows),
        "windows": 0 if (addresses.start - offset) % (RUN * PAGE) else len(windows),  # a folio lies on its own size
        "entries": len(values),
        "pages": len(addresses) // PAGE,
    }


def measure(program: str, directory: Path, fs: str, *, read: bool) -> dict[str, Any]:
    """Copy *program* to *directory* and run it; return what its page tables have, and what hugealign says.

    With *read* the file is read from end to end before.
    """
    path = directory / program
    subprocess.run(["cp", PROGRAMS / program, path], check=True)
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")
    if read:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
    with subprocess.Popen([path, "wait"], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout
            child.stdout.readline()
            values = runs(child.pid, path)
            ps = hugealign("ps", str(child.pid))
            report = json.loads(hugealign("ps", "--json", str(child.pid))["text"])
        finally:
            child.kill()
    path.unlink()
    return {
        "fs": fs,
        "read": read,
        "program": program,
        **values,
        "ps": ps | {"page_size": report["page_size"], "windows_huge": report["processes"][0]["windows_huge"]},
        "verify": verified(program),
    }


def main() -> None:
    """Measure the programs on the file systems: as they are, and read before, with 16 MiB of reading ahead."""
    with open("/dev/ttyS0", "w", encoding="ascii", buffering=1) as port:

        def send(**result: Any) -> None:
            print(json.dumps(result), file=port)

        try:
            pmd = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").read_text(encoding="ascii")
            send(release=os.uname().release, page=os.sysconf("SC_PAGE_SIZE"), pmd=int(pmd))
            for fs, command in MOUNTS.items():
                directory = Path("/mnt") / fs.partition(" ")[0]
                subprocess.run([*command.split(), directory], check=True)
                for read in (False, True) if fs == "ext4" else (False,):
                    if read:
                        READ_AHEAD.write_text("16384", encoding="ascii")
                    for program in sorted(os.listdir(PROGRAMS)):
                        # With 1.5 GiB of memory that one never comes back, for a reason that is not known.
                        if (fs, program) != ("tmpfs huge=always", "512M"):
                            send(**measure(program, directory, fs, read=read))
            send(done=True)
        except BaseException:  # noqa: BLE001
            # Whatever it is, the host must see it.
            send(error=traceback.format_exc())
    ctypes.CDLL(None).reboot(POWER_OFF)


if __name__ == "__main__":
    main()
