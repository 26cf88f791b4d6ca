"""Profiles larger than memory: streamed in a few MiB, and ended where what differs in them is more than any program."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.profiles import functions_of
from tests.support import HUGEALIGN

SIZE = int(os.environ.get("HUGEALIGN_TEST_STREAM", str(160 << 20)))  # bytes
#: Of address space, Python's own 40 MiB included, and what is remembered of samples without symbols.
MEMORY = 144 << 20
WRITER = """
import sys
path, begin, again, times = sys.argv[1:]
at_once = max(1, (1 << 20) // len(again))
with open(path, "wb") as out:
    out.write(begin.encode())
    for _ in range(int(times) // at_once):
        out.write(again.encode() * at_once)
    out.write(again.encode() * (int(times) % at_once))
"""


def mapped(pid: int) -> str:
    return f" {pid} PERF_RECORD_MMAP2 {pid}/{pid}: [0x555500001000(0x1000) @ 0x1000 fe:00 1 2]: r-xp /srv/prog\n"


def stream(name: str, prog: Path) -> tuple[str, str, int]:
    """Return how a file of a format begins, what then comes again and again, and the samples in that."""
    functions = functions_of(prog)
    hot, main = (functions.starts[functions.by_name[of][0]] for of in ("hot", "main"))
    if name == "folded":
        deep = ";".join(["main", "hot", "work"] * 20)
        return "", f"prog;{deep} 3\nprog;{deep};{deep};do_syscall_64_[k] 1\n", 4
    if name == "perf-text":
        frames = "\t    401156 main+0x9 (/srv/prog)\n" * 20
        return "", f"prog 7 1.0: 1 cpu-clock:u: \n\t    401136 hot+0x4 (/srv/prog)\n{frames}\n", 1
    if name == "chains":
        frames = f"\t {main + 1:x} (/srv/prog)\n" * 20
        return mapped(7), f" 7 cpu-clock:u: \n\t {hot:x} (/srv/prog)\n{frames}\n", 1
    return mapped(7), "".join(f" 7 cpu-clock:u:      {0x5555_0000_0000 + hot + at:x}\n" for at in range(8)), 8


@pytest.mark.matrix
@pytest.mark.parametrize(
    "name",
    ["folded", "perf-text", "perf-addresses", "chains"],
)
def test_a_stream_larger_than_memory(prog: Path, tmp_path: Path, name: str) -> None:
    """Through a FIFO, so that all of it is nowhere at once; every sample is counted."""
    begin, repeated, samples = stream(name, prog)
    fifo, times = tmp_path / "fifo", SIZE // len(repeated)
    os.mkfifo(fifo)
    with subprocess.Popen([sys.executable, "-c", WRITER, fifo, begin, repeated, str(times)]) as writer:
        done = subprocess.run(
            [HUGEALIGN, "order", fifo, "-b", prog, "--json"],
            capture_output=True, text=True, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        )  # fmt: skip
        writer.kill()
    assert (done.returncode, done.stderr) == (0, "")
    counted = json.loads(done.stdout)["samples"]
    assert counted["total"] + counted["foreign"] == times * samples
