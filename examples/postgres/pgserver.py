"""A PostgreSQL server of the example: started, asked what its text is mapped with, put to work, recorded."""

import bisect
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from steps import ANY, Failed, Steps, counts, perf_words

WINDOW = 2 << 20
SCALE = 5
# What would make a difference between two servers that is not theirs: the disk, and work of the server's own.
_SETTINGS = {
    "listen_addresses": "''",
    "fsync": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "1h",
}


@dataclass(frozen=True, slots=True)
class Server:
    """One server: the *prefix* it is installed in, its *data*, the directory of its *socket*."""

    steps: Steps
    name: str
    prefix: Path
    data: Path
    socket: Path
    log: str  # name of the step's log

    def program(self, name: str) -> Path:
        """Return one of its programs."""
        return self.prefix / "bin" / name

    def client(self, program: Path, *words: object) -> list[object]:
        """Return the command of a client *program*, its own or another's."""
        return [program, "-h", self.socket, "-U", "postgres", *words]

    def create(self) -> None:
        """Make a cluster, in place of one that was there before."""
        self.steps.output(["rm", "-rf", self.data])
        self.steps.output(["mkdir", "-p", self.socket])
        words = ["-U", "postgres", "-A", "trust", "--no-locale", "-E", "UTF8", "--no-sync"]
        self.steps.run([self.program("initdb"), "-D", self.data, *words], log=self.log)

    def fill(self, client: Path, scale: int = SCALE) -> None:
        """Make pgbench's tables."""
        words = ["-i", "-q", "-s", scale, "postgres"]
        self.steps.run(self.client(client, *words), log=self.log, append=True)

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = {**_SETTINGS, "unix_socket_directories": self.socket}
        options = " ".join(f"-c {key}={value}" for key, value in settings.items())
        words = ["-D", self.data, "-l", f"{self.data}.log", "-w", "-o", options, "start"]
        self.steps.run([self.program("pg_ctl"), *words], log=self.log, append=True)

    def stop(self) -> None:
        """Stop it, if it runs."""
        if (self.data / "postmaster.pid").exists():
            words = ["-D", self.data, "-m", "fast", "-w", "stop"]
            self.steps.run([self.program("pg_ctl"), *words], log=self.log, append=True, accept=ANY)

    @property
    def postmaster(self) -> int:
        """Its process."""
        return int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])

    def processes(self) -> list[int]:
        """Return the postmaster and its children that stay: not the backend of a client that has just gone."""
        first = self._children()
        time.sleep(1)
        return [self.postmaster, *sorted(first & self._children())]

    def _children(self) -> set[int]:
        pid = self.postmaster
        return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()))

    def text(self) -> "Text":
        """Return what the kernel maps its text with."""
        return mapped_text(self.steps, self.postmaster, self.program("postgres"), f"{self.name}: the postmaster")

    def transactions(self, client: Path, mix: Sequence[str], seconds: int) -> float:
        """Return the transactions per second of the built-in scripts *mix* from one client."""
        words = [*mix, "-n", "-c", 1, "-T", seconds, "postgres"]
        said = self.steps.output(self.client(client, *words))
        found = re.search(r"^tps = ([\d.]+)", said, re.MULTILINE)
        if not found or re.search(r"failed transactions: [1-9]", said):
            raise Failed(f"{self.name}: pgbench: {said}")
        return float(found[1])

    def record(self, client: Path, output: Path, transactions: int, *, stacks: bool) -> "Text":
        """Record all its processes into the perf.data *output* while pgbench runs its mix; return where the text is."""
        load = ["-b", "tpcb-like", "-b", "select-only", "-n", "-c", 4, "-j", 2, "-t", transactions // 4, "postgres"]
        pids = ",".join(map(str, self.processes()))
        words = ["-N", "-e", "cpu-clock:u", "-F", "999", *(["-g"] if stacks else []), "-p", pids, "-o", output, "--"]
        before = perf_words(self.steps.user)
        command = [*before, "perf", "record", *words, *self.client(client, *load)]
        self.steps.run(command, log=self.log, append=True, own_user=bool(before))
        return self.text()

    def counters(self, client: Path, seconds: int) -> dict[str, int] | None:
        """Return instructions and iTLB misses of its processes while pgbench selects, None if nothing counts them."""
        pids = ",".join(map(str, self.processes()))
        before = perf_words(self.steps.user)
        out = self.steps.directory("results") / f"{self.name}.counters"
        words = ["-x,", "-e", "instructions:u,iTLB-load-misses:u", "-o", out, "-p", pids, "--"]
        load = ["-S", "-n", "-c", 1, "-T", seconds, "postgres"]
        command = [*before, "perf", "stat", *words, *self.client(client, *load)]
        self.steps.run(command, log=self.log, append=True, own_user=bool(before))
        found = counts(out.read_text(errors="replace"))
        return dict(found) if found else None


@dataclass(frozen=True, slots=True)
class Text:
    """Where a process has its text, and how many bytes of it the kernel maps with PMDs."""

    start: int
    end: int
    huge: int

    def __str__(self) -> str:
        return f"{self.huge >> 10} of {(self.end - self.start) >> 10} KiB"


def mapped_text(steps: Steps, pid: int, program: Path, who: str) -> Text:
    """Return how the kernel maps the text of *program* in the process *pid*.  Raises Failed, which names *who*."""
    start = end = huge = 0
    inside = False
    for line in steps.output(["cat", f"/proc/{pid}/smaps"]).splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            inside = words[1] == "r-xp" and words[-1] == str(program)
            if inside:
                low, high = (int(word, 16) for word in words[0].split("-"))
                start, end = start or low, high
        elif inside and words[0] in {"FilePmdMapped:", "ShmemPmdMapped:"}:
            huge += int(words[1]) << 10
    if not start:
        raise Failed(f"{who} maps no text")
    return Text(start, end, huge)


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Make the cluster of *server* anew and run it; stop it however this ends."""
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.stop()


# ---- where the samples fall ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples by their distance from the start of the text, sorted, in bytes."""

    offsets: list[int]

    def share(self, end: int) -> float:
        """Return the per cent of samples before *end*, in bytes from the start of the text."""
        return 100 * bisect.bisect_left(self.offsets, end) / max(1, len(self.offsets))

    def windows(self) -> int:
        """Return how many windows have samples."""
        return len({offset // WINDOW for offset in self.offsets})

    def pages(self) -> int:
        """Return how many pages of 4 KiB have samples."""
        return len({offset >> 12 for offset in self.offsets})


def recorded(steps: Steps, profile: Path, text: Text) -> Samples:
    """Return the samples of *profile* in the text that lay at *text*; forks of the postmaster all have it there."""
    said = steps.output(["perf", "script", "-i", profile, "-G", "-F", "ip"])
    addresses = (int(word, 16) for word in said.split())
    return Samples(sorted(address - text.start for address in addresses if text.start <= address < text.end))
