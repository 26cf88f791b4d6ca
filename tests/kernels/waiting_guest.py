"""Inside the virtual machine: what khugepaged does for `hugealign warm --wait`, where no process can collapse text."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.kernels.guest import MOUNTS, THP, copied, started
from tests.live.programs import NOBODY, hugealign

#: Starts a command to which the kernel says EINVAL when it requests MADV_COLLAPSE, as Linux before 6.1 does: a filter
#: of seccomp(2), for the system call madvise with 25 as its third argument.
WITHOUT_COLLAPSE = """\
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0), (0x15, 0, 3, 28), (0x20, 0, 0, 32), (0x15, 0, 1, 25)]
code += [(6, 0, 0, 0x50016), (6, 0, 0, 0x7FFF0000)]
filter = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(filter)))
prctl = ctypes.CDLL(None).prctl
if prctl(38, 1, 0, 0, 0) or prctl(22, 2, ctypes.byref(program), 0, 0):
    sys.exit("no seccomp")
os.execvp(sys.argv[1], sys.argv[1:])
"""


def task(send: Any) -> None:
    """Warm a program on each file system with `--wait` and without; look at the next process."""
    khugepaged = THP.parent / "khugepaged"
    (khugepaged / "pages_to_scan").write_text(str(1 << 16), encoding="ascii")
    THP.write_text("madvise", encoding="ascii")
    for name in ("ext4", "xfs", "btrfs"):
        directory = Path("/mnt") / name
        subprocess.run([*MOUNTS[name].split(), directory], check=True)
        directory.chmod(0o1777)
        result: dict[str, Any] = {"fs": name}
        for what, words in (("warm", ()), ("wait", ("--wait=30",))):
            # Without a wait it must not happen to come by.
            (khugepaged / "scan_sleep_millisecs").write_text("20" if words else "600000", encoding="ascii")
            path = copied("pie", directory)
            prefix = (*NOBODY, sys.executable, "-c", WITHOUT_COLLAPSE)
            done = hugealign("warm", "--json", *words, path, prefix=prefix)
            file = json.loads(done.stdout)["files"][0]
            result[what] = {"windows_huge": file["windows_huge"], "next_kib": started(path)}
            path.unlink()
        send(**result)
