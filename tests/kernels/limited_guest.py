"""Inside the virtual machine: `hugealign run` in a control group of version 2 with a limit of memory."""

import os
import subprocess
from pathlib import Path
from typing import Any

from tests.kernels.guest import ALL, copied
from tests.live.programs import ROOT, running

GROUPS = Path("/sys/fs/cgroup")
FILE = 96 << 20
#: The limits: what the program needs besides its file is little.
LIMITS = (128 << 20, 600 << 20)
#: Enters the group, and becomes the command, which writes what it has to say to the file.
_ENTER = """\
import os, sys
_, group, said, *words = sys.argv
with open(f"{group}/cgroup.procs", "w") as file:
    file.write(str(os.getpid()))
os.dup2(os.open(said, os.O_CREAT | os.O_WRONLY, 0o600), 2)
os.execvp(words[0], words)
"""


def task(send: Any) -> None:
    """Start a program of 96 MiB from a copy in memory, in groups with less and with more than four times that."""
    subprocess.run(["mount", "-t", "cgroup2", "none", GROUPS], check=True)
    (GROUPS / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
    subprocess.run(["mount", "-t", "btrfs", "/dev/btrfs", "/mnt/btrfs"], check=True)
    path = copied("pie", Path("/mnt/btrfs"))
    with path.open("ab") as file:
        for _ in range(FILE >> 20):
            file.write(os.urandom(1 << 20))
    os.environ["PYTHONPATH"] = str(ROOT)
    for limit in LIMITS:
        group = GROUPS / f"limit-{limit}"
        group.mkdir()
        (group / "memory.max").write_text(str(limit), encoding="ascii")
        said = Path(f"/tmp/said-{limit}")  # no other user is here
        words = ("python3", "-c", _ENTER, group, said)
        run = ("python3", "-m", "hugealign", "run", "--how=copy", "--fix", "--")
        with running(*words, *run, path, ALL) as child:
            smaps = Path(f"/proc/{child.pid}/smaps").read_text(encoding="utf-8").splitlines()
            huge = sum(int(line.split()[1]) for line in smaps if line.startswith("ShmemPmdMapped:"))
        events = dict(line.split() for line in (group / "memory.events").read_text(encoding="ascii").splitlines())
        send(limit=limit, huge_kib=huge, killed=int(events["oom_kill"]), said=said.read_text(encoding="utf-8"))
