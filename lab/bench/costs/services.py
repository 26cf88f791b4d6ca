"""The start of MariaDB's service: as the package has it, and with ``hugealign enable --fix --libs``.

In a Debian 12 whose systemd boots in namespaces, on this machine's kernel.  Warm, the copies are there from the last
start; cold, there are none.  Needs root.  Run by ``make bench``, or alone: ``python -m lab.bench.costs.services``.
"""

import os
import tempfile
import time
from pathlib import Path

from lab.bench.timing import Table
from tests.live.booted import HUGEALIGN, System, booted

ROUNDS = 7
_UNIT = "mariadb"


def service_starts(table: Table, work: Path) -> None:
    """Add a row for a start with copies that are there, and one for a start without."""
    if os.geteuid():
        print("services: not measured; they need root")
        return
    (work / "root").mkdir()
    with booted(work / "root", ("mariadb-server",)) as system:
        plain, warm, cold = [], [], []
        for _ in range(ROUNDS):
            plain.append(_start(system))
            _done(system, HUGEALIGN, "enable", "--fix", "--libs", _UNIT)
            _start(system)
            warm.append(_start(system))
            _done(system, "systemctl", "stop", _UNIT)
            _done(system, HUGEALIGN, "status", "--undo", "/run/hugealign")
            cold.append(_start(system))
            _done(system, HUGEALIGN, "disable", _UNIT)
        table.show("service start, copies there", plain, warm)
        table.show("service start, no copies", plain, cold)


def _start(system: System) -> float:
    """Stop the service and start it; return the milliseconds until it has started."""
    _done(system, "systemctl", "stop", _UNIT)
    began = time.perf_counter()
    _done(system, "systemctl", "start", _UNIT)
    return (time.perf_counter() - began) * 1000


def _done(system: System, *words: str) -> None:
    done = system.run(*words, seconds=300)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.strip()}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="hugealign-bench-", dir="/var/tmp") as directory:
        service_starts(Table(), Path(directory))
