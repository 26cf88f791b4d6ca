"""A MariaDB server of the example: its data, started, asked what its text is mapped with, put to work, recorded."""

import os
import pwd
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgserver import Text, mapped_text
from steps import Failed, Steps, counts, perf_words

TABLES, ROWS = 4, 10_000
WORKLOADS = ("oltp_read_only", "oltp_read_write")
# What would make a difference between two servers that is not theirs: the disk, and work of the server's own.
_SETTINGS = """
--skip-networking --innodb-buffer-pool-size=256M --innodb-log-file-size=256M --innodb-flush-log-at-trx-commit=0
--innodb-doublewrite=0 --innodb-stats-auto-recalc=0 --innodb-use-native-aio=0 --skip-log-bin
""".split()
_PATIENCE = 120  # seconds until a server answers, or ends


@dataclass(frozen=True, slots=True)
class Place:
    """What the build left for servers to use: the *source*, and the build *tree*."""

    steps: Steps
    source: Path
    tree: Path

    def words(self, data: Path) -> list[str]:
        """Return the options without which a server does not find its own files."""
        return [
            "--no-defaults", f"--datadir={data}", f"--lc-messages-dir={self.tree / 'sql' / 'share'}",
            f"--character-sets-dir={self.source / 'sql' / 'share' / 'charsets'}", f"--tmpdir={data.parent}",
        ]  # fmt: skip

    def create(self, data: Path) -> None:
        """Make a data directory with the system tables, by MariaDB's own script."""
        self.steps.output(["rm", "-rf", data])
        script = [self.tree / "scripts" / "mariadb-install-db", "--no-defaults", f"--srcdir={self.source}"]
        words = [f"--builddir={self.tree}", f"--datadir={data}", "--auth-root-authentication-method=normal"]
        self.steps.run([*script, *words, "--skip-test-db", *_SETTINGS[1:4]], log="data")


@dataclass(slots=True)
class Server:
    """One server: a *program* on its *data*, with its *socket*."""

    place: Place
    name: str
    program: Path
    data: Path
    socket: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers; raises Failed."""
        words = [str(self.program), *self.place.words(self.data), *_SETTINGS]
        words += [f"--socket={self.socket}", f"--pid-file={self.data}/server.pid", f"--log-error={self.data}.log"]
        with Path(f"{self.data}.out").open("wb") as out:
            self.process = subprocess.Popen(
                [*_as(self.place.steps.user), *words], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                cwd=self.data.parent, start_new_session=True,
            )  # fmt: skip
        admin = [self.place.tree / "client" / "mariadb-admin", "--no-defaults", "-S", self.socket, "-u", "root", "ping"]
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            if "alive" in self.place.steps.output(admin, accept=(0, 1)):
                return
            time.sleep(0.2)
        raise Failed(f"{self.name}: no server: see {self.data}.log")

    def stop(self) -> None:
        """Stop it, if it runs."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    @property
    def pid(self) -> int:
        """Its process."""
        if self.process is None:
            raise Failed(f"{self.name}: the server does not run")
        return self.process.pid

    def query(self, statement: str) -> str:
        """Return what *statement* gives."""
        client = [self.place.tree / "client" / "mariadb", "--no-defaults", "-N", "-S", self.socket, "-u", "root"]
        return self.place.steps.output([*client, "-e", statement])

    def sysbench(self, workload: str, action: str, *options: object) -> list[object]:
        """Return the command of one of sysbench's own scripts."""
        words = [f"--mysql-socket={self.socket}", "--mysql-user=root", "--mysql-db=sbtest", "--db-driver=mysql"]
        return ["sysbench", workload, *words, f"--tables={TABLES}", f"--table-size={ROWS}", *options, action]

    def fill(self) -> None:
        """Make sysbench's tables."""
        self.query("CREATE DATABASE sbtest")
        self.place.steps.run(self.sysbench("oltp_read_write", "prepare", "--rand-seed=1"), log="prepare")

    def text(self) -> Text:
        """Return what the kernel maps its text with."""
        return mapped_text(self.place.steps, self.pid, self.program, f"{self.name}: the server")

    def cpu_seconds(self) -> float:
        """Return the processor time that all its threads have taken, in user mode and in the kernel."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def transactions(self, workload: str, seconds: int, seed: int) -> tuple[float, float]:
        """Run *workload* from one client; return transactions per second, and CPU µs of the server for each."""
        words = self.sysbench(workload, "run", f"--time={seconds}", "--threads=1", f"--rand-seed={seed}")
        before = self.cpu_seconds()
        said = self.place.steps.output(words)
        used = self.cpu_seconds() - before
        found = re.search(r"transactions:\s+(\d+)\s+\(([\d.]+) per sec", said)
        if not found or not re.search(r"ignored errors:\s+0 ", said) or found[1] == "0":
            raise Failed(f"{self.name}: sysbench: {said}")
        return float(found[2]), used * 1e6 / int(found[1])

    def record(self, workload: str, output: Path, seconds: int, seed: int) -> Text:
        """Record all its threads into the perf.data *output* while sysbench runs; return where the text is."""
        load = self.sysbench(workload, "run", f"--time={seconds}", "--threads=2", f"--rand-seed={seed}")
        before = perf_words(self.place.steps.user)
        words = ["-N", "-e", "cpu-clock:u", "-F", "999", "-p", self.pid, "-o", output, "--"]
        self.place.steps.run(
            [*before, "perf", "record", *words, *load], log=f"record-{output.stem}", own_user=bool(before)
        )
        return self.text()

    def counters(self, workload: str, seconds: int) -> dict[str, int] | None:
        """Return instructions and iTLB misses while sysbench runs, or None if nothing here counts them."""
        out = self.place.steps.directory("results") / f"{self.name}.counters"
        before = perf_words(self.place.steps.user)
        words = ["-x,", "-e", "instructions:u,iTLB-load-misses:u", "-o", out, "-p", self.pid, "--"]
        load = self.sysbench(workload, "run", f"--time={seconds}", "--threads=1", "--rand-seed=1")
        self.place.steps.run([*before, "perf", "stat", *words, *load], log="counters", own_user=bool(before))
        found = counts(out.read_text(errors="replace"))
        return dict(found) if found else None


def _as(user: str) -> list[str]:
    """Return the words that make a command run as *user*, in the same process."""
    if os.geteuid() != 0:
        return []
    found = pwd.getpwnam(user)
    return ["setpriv", "--reuid", str(found.pw_uid), "--regid", str(found.pw_gid), "--clear-groups", "--"]


@contextmanager
def running(servers: Sequence[Server]) -> Iterator[Sequence[Server]]:
    """Run *servers*; stop them however this ends."""
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.stop()
